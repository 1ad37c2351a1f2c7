import { create, fromJson } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type CatalogSnapshot, CatalogSnapshotSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import {
  type Deployment,
  DeploymentSchema,
  DeploymentSettingsSchema,
  type Grant,
  GrantSchema,
  type Model,
  ModelSchema,
  type Price,
  PriceRatesSchema,
  PriceSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import {
  DeploymentEntity,
  type DeploymentRow,
  GrantEntity,
  type GrantRow,
  ModelEntity,
  type ModelRow,
  PriceEntity,
  type PriceRow,
} from '../db/catalog.entities.ts';
import type { RetirementRow } from '../db/retirement.entities.ts';
import { retirementMessage, standingRetirements } from '../db/retirement.repository.ts';
import { effectiveSettings } from '../domain/deployment-settings.ts';

/** Reads the whole catalog at one version. Call it in a transaction that sees one state (REPEATABLE READ). */
export async function readSnapshot(em: SqlEntityManager): Promise<CatalogSnapshot> {
  const [{ version, now }] = (await em.execute('select version, now() as now from catalog_version')) as [
    { version: string; now: Date | string },
  ];
  const models = await em.find(ModelEntity, { deletedAt: null }, { orderBy: { name: 'asc' } });
  const retirements = new Map((await standingRetirements(em)).map((row) => [row.modelId, row]));
  const deployments = Map.groupBy(
    await em.find(DeploymentEntity, {}, { orderBy: { id: 'asc' } }),
    (row) => row.modelId,
  );
  const prices = Map.groupBy(
    await em.find(PriceEntity, {}, { orderBy: { effectiveFrom: 'asc' } }),
    (row) => row.modelId,
  );
  const grants = Map.groupBy(
    await em.find(GrantEntity, {}, { orderBy: { grantedAt: 'asc', tenantId: 'asc' } }),
    (row) => row.modelId,
  );
  return create(CatalogSnapshotSchema, {
    version: BigInt(version),
    createdAt: timestampFromDate(new Date(now)),
    models: models.map((row) => ({
      model: modelMessage(row, retirements.get(row.id)),
      grantedTenantIds: (grants.get(row.id) ?? []).map((grant) => grant.tenantId),
      deployments: (deployments.get(row.id) ?? []).map((deployment) => deploymentMessage(row.name, deployment)),
      prices: (prices.get(row.id) ?? []).map((price) => priceMessage(row.name, price)),
      grants: (grants.get(row.id) ?? []).map((grant) => grantMessage(row.name, grant)),
    })),
  });
}

/** A model without what depends on its deployments and prices. */
export const modelMessage = (row: ModelRow, retirement: RetirementRow | undefined): Model => {
  const message: Omit<WholeMessage<typeof ModelSchema>, 'price' | 'deployments' | 'isServiceable'> = {
    id: row.id,
    name: row.name,
    displayName: row.displayName,
    ownedBy: row.ownedBy,
    createdAt: timestampFromDate(row.createdAt),
    operations: row.operations,
    contextWindow: row.contextWindow,
    maxOutputTokens: row.maxOutputTokens,
    visibility: row.visibility,
    retirement: retirement === undefined ? undefined : retirementMessage(retirement),
  };
  return create(ModelSchema, message);
};

export const deploymentMessage = (model: string, row: DeploymentRow): Deployment =>
  create(DeploymentSchema, {
    id: row.id,
    model,
    settings: effectiveSettings(fromJson(DeploymentSettingsSchema, row.settings)),
    status: row.status,
    statusChangedAt: timestampFromDate(row.statusChangedAt),
    statusReason: row.statusReason,
    createdAt: timestampFromDate(row.createdAt),
  });

export const priceMessage = (model: string, row: PriceRow): Price =>
  create(PriceSchema, {
    id: row.id,
    model,
    effectiveFrom: timestampFromDate(row.effectiveFrom),
    createdAt: timestampFromDate(row.createdAt),
    rates: fromJson(PriceRatesSchema, row.rates),
  });

export const grantMessage = (model: string, { tenantId, grantedAt }: GrantRow): Grant =>
  create(GrantSchema, { model, tenantId, grantedAt: timestampFromDate(grantedAt) });
