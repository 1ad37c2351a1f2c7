import { isDeepStrictEqual } from 'node:util';
import { equals, fromJson, type JsonObject, toJson } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type DeploymentSettings,
  type ModelSettings,
  type PriceRates,
  PriceRatesSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import { type ImportedModel, PriceChangesSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { DeploymentEntity, type ModelRow, PriceEntity } from '../db/catalog.entities.ts';
import { findModel } from '../db/model.repository.ts';
import type { Judged } from '../domain/deployment-health.ts';
import { addDeployment, addressOf, changeDeployment } from './write-deployment.ts';
import { addModel, modelChanges } from './write-model.ts';

/** What an import did, or would do. */
export type ImportCounts = {
  modelsCreated: number;
  modelsUpdated: number;
  deploymentsCreated: number;
  deploymentsUpdated: number;
  pricesCreated: number;
};

/**
 * Adds and changes models, deployments and prices; anything the import does not name stays. `statusOf` determines the status of a new
 * deployment.
 */
export async function importModels(
  em: SqlEntityManager,
  models: readonly ImportedModel[],
  statusOf: (settings: DeploymentSettings) => Judged,
  now: Date,
): Promise<ImportCounts> {
  const counts: ImportCounts = {
    modelsCreated: 0,
    modelsUpdated: 0,
    deploymentsCreated: 0,
    deploymentsUpdated: 0,
    pricesCreated: 0,
  };
  const work = { em, now, counts };
  for (const imported of models) {
    const model = await importModel(work, imported.name, imported.settings!);
    for (const settings of imported.deployments) await importDeployment(work, model, settings, statusOf(settings));
    if ((imported.priceChanges ?? imported.price) !== undefined) await importPrice(work, model, imported);
    await em.flush();
  }
  return counts;
}

/** A running import; each step adds to its counts. */
type Import = { em: SqlEntityManager; now: Date; counts: ImportCounts };

async function importModel({ em, now, counts }: Import, name: string, settings: ModelSettings): Promise<ModelRow> {
  const existing = await findModel(em, name);
  if (existing === null) {
    counts.modelsCreated++;
    return addModel(em, name, settings, now);
  }
  const changes = modelChanges(settings);
  const before = Object.fromEntries(Object.keys(changes).map((field) => [field, existing[field as keyof ModelRow]]));
  if (!isDeepStrictEqual(before, changes)) {
    em.assign(existing, changes);
    counts.modelsUpdated++;
  }
  return existing;
}

async function importDeployment(
  { em, now, counts }: Import,
  model: ModelRow,
  settings: DeploymentSettings,
  judged: Judged,
): Promise<void> {
  const existing = await em.findOne(DeploymentEntity, { modelId: model.id, ...addressOf(settings, model.name) });
  if (existing === null) {
    counts.deploymentsCreated++;
    addDeployment(em, model, settings, judged, now);
    return;
  }
  const before = existing.settings;
  // The deployment was found by its address, so that stays as it is spelled.
  changeDeployment(existing, { ...settings, baseUrl: undefined, upstreamModel: undefined }, now);
  if (!isDeepStrictEqual(before, existing.settings)) counts.deploymentsUpdated++;
}

async function importPrice({ em, now, counts }: Import, model: ModelRow, imported: ImportedModel): Promise<void> {
  const inForce = await em.findOne(
    PriceEntity,
    { modelId: model.id, effectiveFrom: { $lte: now } },
    { orderBy: { effectiveFrom: 'desc' } },
  );
  const before = inForce === null ? null : fromJson(PriceRatesSchema, inForce.rates);
  const rates = nextRates(before, imported);
  if (before !== null && equals(PriceRatesSchema, before, rates)) return;
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

/** The rates after an import: the named ones changed, or all replaced. */
function nextRates(before: PriceRates | null, { price, priceChanges }: ImportedModel): PriceRates {
  if (priceChanges === undefined) return price!;
  // The JSON form has only the rates that are set.
  const named = toJson(PriceChangesSchema, priceChanges) as JsonObject;
  return fromJson(PriceRatesSchema, { ...(before && (toJson(PriceRatesSchema, before) as JsonObject)), ...named });
}
