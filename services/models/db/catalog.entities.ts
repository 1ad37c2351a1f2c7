import type { JsonObject } from '@bufbuild/protobuf';
import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';
import type { DeploymentStatus, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ReminderEntity, RetirementEntity } from './retirement.entities.ts';

export const ModelEntity = defineEntity({
  name: 'Model',
  tableName: 'models',
  properties: {
    id: p.uuid().primary(),
    name: p.text(),
    displayName: p.text(),
    ownedBy: p.text(),
    operations: p.array((value) => Number(value) as Operation).columnType('smallint[]'),
    contextWindow: p.integer().default(0),
    maxOutputTokens: p.integer().default(0),
    visibility: p.smallint().$type<Visibility>(),
    createdAt: p.datetime(),
    /** Base URLs of the upstreams from which it was registered: a start does not register it from there again. */
    registeredFrom: p.array().columnType('text[]').default([]),
    /** A deleted model is kept for prices and retirements that refer to it; its name may be reused. */
    deletedAt: p.datetime().strictNullable(),
  },
});

export const DeploymentEntity = defineEntity({
  name: 'Deployment',
  tableName: 'deployments',
  properties: {
    id: p.uuid().primary(),
    modelId: p.uuid(),
    baseUrl: p.text(),
    upstreamModel: p.text(),
    settings: p.json<JsonObject>(),
    status: p.smallint().$type<DeploymentStatus>(),
    statusChangedAt: p.datetime(),
    statusReason: p.text().default(''),
    createdAt: p.datetime(),
  },
});

export const PriceEntity = defineEntity({
  name: 'Price',
  tableName: 'prices',
  properties: {
    id: p.uuid().primary(),
    modelId: p.uuid(),
    effectiveFrom: p.datetime(),
    createdAt: p.datetime(),
    rates: p.json<JsonObject>(),
    withdrawnAt: p.datetime().strictNullable(),
  },
});

export const GrantEntity = defineEntity({
  name: 'Grant',
  tableName: 'grants',
  properties: {
    modelId: p.uuid().primary(),
    tenantId: p.uuid().primary(),
    grantedAt: p.datetime(),
  },
});

export const modelEntities = [
  ModelEntity,
  DeploymentEntity,
  PriceEntity,
  GrantEntity,
  RetirementEntity,
  ReminderEntity,
];

export type ModelRow = InferEntity<typeof ModelEntity>;
export type DeploymentRow = InferEntity<typeof DeploymentEntity>;
export type GrantRow = InferEntity<typeof GrantEntity>;
export type PriceRow = InferEntity<typeof PriceEntity>;
