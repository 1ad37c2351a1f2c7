import { equals, fromJson, type JsonObject, toJson } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type DeploymentSettings,
  DeploymentSettingsSchema,
  DeploymentStatus,
  type ModelSettings,
  type PriceRates,
  PriceRatesSchema,
  Visibility,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ImportedModel } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { DeploymentEntity, ModelEntity, type ModelRow, PriceEntity } from '../db/catalog.entities.ts';

/** What an import did, or would do. */
export type ImportCounts = {
  modelsCreated: number;
  modelsUpdated: number;
  deploymentsCreated: number;
  deploymentsUpdated: number;
  pricesCreated: number;
};

/** Adds and changes models, deployments and prices; what the import does not name stays. */
export async function importModels(
  em: SqlEntityManager,
  models: readonly ImportedModel[],
  now: Date,
): Promise<ImportCounts> {
  const counts: ImportCounts = {
    modelsCreated: 0,
    modelsUpdated: 0,
    deploymentsCreated: 0,
    deploymentsUpdated: 0,
    pricesCreated: 0,
  };
  for (const imported of models) {
    const model = await importModel(em, imported.name, imported.settings!, now, counts);
    for (const settings of imported.deployments) await importDeployment(em, model, settings, now, counts);
    if (imported.price !== undefined) await importPrice(em, model, imported.price, now, counts);
    await em.flush();
  }
  return counts;
}

async function importModel(
  em: SqlEntityManager,
  name: string,
  settings: ModelSettings,
  now: Date,
  counts: ImportCounts,
): Promise<ModelRow> {
  const existing = await em.findOne(ModelEntity, { name });
  const changes = {
    ...(settings.displayName === undefined ? undefined : { displayName: settings.displayName }),
    ...(settings.ownedBy === undefined ? undefined : { ownedBy: settings.ownedBy }),
    ...(settings.operations.length === 0 ? undefined : { operations: [...settings.operations] }),
    ...(settings.contextWindow === undefined ? undefined : { contextWindow: settings.contextWindow }),
    ...(settings.maxOutputTokens === undefined ? undefined : { maxOutputTokens: settings.maxOutputTokens }),
    ...(settings.visibility === Visibility.UNSPECIFIED ? undefined : { visibility: settings.visibility }),
  };
  if (existing !== null) {
    em.assign(existing, changes);
    counts.modelsUpdated++;
    return existing;
  }
  counts.modelsCreated++;
  const created = em.create(ModelEntity, {
    id: uuidv7(),
    name,
    displayName: name,
    ownedBy: 'model-gateway',
    operations: [Operation.CHAT_COMPLETIONS],
    visibility: Visibility.PUBLIC,
    createdAt: now,
    ...changes,
  });
  // The tables know of each other, the entities do not: what refers to the model must come behind it.
  await em.persist(created).flush();
  return created;
}

async function importDeployment(
  em: SqlEntityManager,
  model: ModelRow,
  settings: DeploymentSettings,
  now: Date,
  counts: ImportCounts,
): Promise<void> {
  const baseUrl = settings.baseUrl ?? '';
  if (baseUrl === '') throw invalidRequest('base_url', 'A deployment needs a base_url.', 'missing_required_field');
  const upstreamModel = settings.upstreamModel || model.name;
  const stored = toJson(DeploymentSettingsSchema, settings) as JsonObject;
  const existing = await em.findOne(DeploymentEntity, { modelId: model.id, baseUrl, upstreamModel });
  if (existing !== null) {
    if (!equals(DeploymentSettingsSchema, fromJson(DeploymentSettingsSchema, existing.settings), settings)) {
      existing.settings = stored;
      counts.deploymentsUpdated++;
    }
    return;
  }
  counts.deploymentsCreated++;
  em.persist(
    em.create(DeploymentEntity, {
      id: uuidv7(),
      modelId: model.id,
      baseUrl,
      upstreamModel,
      settings: stored,
      // Taken to run until a probe or live traffic says otherwise.
      status: DeploymentStatus.RUNNING,
      statusChangedAt: now,
      createdAt: now,
    }),
  );
}

async function importPrice(
  em: SqlEntityManager,
  model: ModelRow,
  rates: PriceRates,
  now: Date,
  counts: ImportCounts,
): Promise<void> {
  const inForce = await em.findOne(
    PriceEntity,
    { modelId: model.id, effectiveFrom: { $lte: now } },
    { orderBy: { effectiveFrom: 'desc' } },
  );
  if (inForce !== null && equals(PriceRatesSchema, fromJson(PriceRatesSchema, inForce.rates), rates)) return;
  counts.pricesCreated++;
  em.persist(
    em.create(PriceEntity, {
      id: uuidv7(),
      modelId: model.id,
      effectiveFrom: now,
      createdAt: now,
      rates: toJson(PriceRatesSchema, rates) as JsonObject,
    }),
  );
}
