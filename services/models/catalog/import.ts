import { isDeepStrictEqual } from 'node:util';
import { equals, fromJson, type JsonObject, toJson } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type DeploymentSettings, type PriceRates, PriceRatesSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { type ImportedModel, PriceChangesSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { inTurns } from '#shared/in-turns.ts';
import {
  DeploymentEntity,
  type DeploymentRow,
  ModelEntity,
  type ModelRow,
  PriceEntity,
} from '../db/catalog.entities.ts';
import { type BegunPrice, beginningAfter, pricesInForce } from '../db/price.repository.ts';
import type { Judged } from '../domain/deployment-health.ts';
import { addDeployment, addressOf, changeDeployment, isAt } from './write-deployment.ts';
import { addModel, modelChanges } from './write-model.ts';

/** What an import did, or would do. */
export type ImportCounts = {
  modelsCreated: number;
  modelsUpdated: number;
  deploymentsCreated: number;
  deploymentsUpdated: number;
  pricesCreated: number;
};

/** Whether an import changes anything. */
export const isChange = (counts: ImportCounts): boolean => Object.values(counts).some((count) => count > 0);

/** A running import; each step adds to its counts. */
type Import = {
  em: SqlEntityManager;
  /** The status of a deployment that is new, or on another server than before. */
  statusOf: (settings: DeploymentSettings) => Judged;
  now: Date;
  counts: ImportCounts;
};

/** Some tens of milliseconds of work; a file, or an upstream, may name ten thousand models. */
const modelsPerTurn = 250;

/**
 * Adds and changes models, deployments and prices; anything the import does not name stays. No model or deployment may be named twice.
 * Flushes the unit of work and empties it.
 */
export async function importModels(
  em: SqlEntityManager,
  models: readonly ImportedModel[],
  statusOf: Import['statusOf'],
  now: Date,
): Promise<ImportCounts> {
  const counts: ImportCounts = {
    modelsCreated: 0,
    modelsUpdated: 0,
    deploymentsCreated: 0,
    deploymentsUpdated: 0,
    pricesCreated: 0,
  };
  for await (const slice of inTurns(models, modelsPerTurn)) {
    await importSlice({ em, statusOf, now, counts }, slice);
    // Each flush compares all that the unit of work knows, in one turn of the event loop.
    em.clear();
  }
  return counts;
}

async function importSlice(work: Import, models: readonly ImportedModel[]): Promise<void> {
  const { em, now } = work;
  const known = await whatIsKnown(em, models, now);
  const imports = models.map((imported) => ({
    imported,
    model: importModel(work, known.models.get(imported.name), imported),
  }));
  // The entities do not know of the foreign keys between the tables, so the models have to be inserted before what refers to them.
  await em.flush();

  for (const { imported, model } of imports) {
    const deployments = known.deployments.get(model.id) ?? [];
    for (const settings of imported.deployments) importDeployment(work, model, deployments, settings);
    if ((imported.priceChanges ?? imported.price) === undefined) continue;
    importPrice(work, model, known.prices.get(model.id), imported);
  }
  await em.flush();
}

/**
 * What the catalog has of these models: themselves by name, and their deployments and prices in force by the model's id. Read at once,
 * since a file may name thousands.
 */
async function whatIsKnown(em: SqlEntityManager, imported: readonly ImportedModel[], now: Date) {
  const models = await em.find(ModelEntity, { name: { $in: imported.map(({ name }) => name) }, deletedAt: null });
  const ids = models.map(({ id }) => id);
  const deployments = await em.find(DeploymentEntity, { modelId: { $in: ids } });
  return {
    models: new Map(models.map((model) => [model.name, model])),
    deployments: Map.groupBy(deployments, ({ modelId }) => modelId),
    prices: await pricesInForce(em, ids, now),
  };
}

function importModel(
  { em, now, counts }: Import,
  existing: ModelRow | undefined,
  { name, settings }: ImportedModel,
): ModelRow {
  if (existing === undefined) {
    counts.modelsCreated++;
    return addModel(em, name, settings!, now);
  }
  const changes = modelChanges(settings!);
  const before = Object.fromEntries(Object.keys(changes).map((field) => [field, existing[field as keyof ModelRow]]));
  if (!isDeepStrictEqual(before, changes)) {
    em.assign(existing, changes);
    counts.modelsUpdated++;
  }
  return existing;
}

function importDeployment(
  { em, statusOf, now, counts }: Import,
  model: ModelRow,
  known: readonly DeploymentRow[],
  settings: DeploymentSettings,
): void {
  const address = addressOf(settings, model.name);
  const existing = known.find((row) => isAt(row, address));
  if (existing === undefined) {
    counts.deploymentsCreated++;
    addDeployment(em, model, settings, statusOf(settings), now);
    return;
  }
  const before = existing.settings;
  changeDeployment(existing, importedChanges(settings), statusOf, now);
  if (!isDeepStrictEqual(before, existing.settings)) counts.deploymentsUpdated++;
}

/** What an import changes of a deployment: it was found by its address, so that stays as it is spelled. */
export const importedChanges = (settings: DeploymentSettings): DeploymentSettings => ({
  ...settings,
  baseUrl: undefined,
  upstreamModel: undefined,
});

function importPrice(
  { em, now, counts }: Import,
  model: ModelRow,
  inForce: BegunPrice | undefined,
  imported: ImportedModel,
): void {
  const before = inForce?.rates ?? null;
  const rates = nextRates(before, imported);
  if (before !== null && equals(PriceRatesSchema, before, rates)) return;
  counts.pricesCreated++;
  const from = beginningAfter(inForce, now);
  em.persist(
    em.create(PriceEntity, {
      id: uuidv7(),
      modelId: model.id,
      effectiveFrom: from,
      createdAt: from,
      rates: toJson(PriceRatesSchema, rates) as JsonObject,
      withdrawnAt: null,
    }),
  );
}

/** The rates after an import: the named ones changed, or all replaced. */
function nextRates(before: PriceRates | null, { price, priceChanges }: ImportedModel): PriceRates {
  if (priceChanges === undefined) return price!;
  // The JSON form has only the rates that are set.
  const { clearCachedInput, ...named } = toJson(PriceChangesSchema, priceChanges) as JsonObject;
  const kept = before === null ? {} : (toJson(PriceRatesSchema, before) as JsonObject);
  if (clearCachedInput === true) delete kept.cachedInputPerMillionNanoUsd;
  return fromJson(PriceRatesSchema, { ...kept, ...named });
}
