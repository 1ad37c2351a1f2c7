import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { type CatalogModel, CatalogModelSchema, type CatalogSnapshot } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { DeploymentSummarySchema, type Model, ModelSchema, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ListModelsRequest } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { comparable } from '#shared/comparable.ts';
import { modelNotFound } from '#shared/errors.ts';
import { isServing } from '../domain/deployment-health.ts';
import { hasBegun } from '../domain/price.ts';
import { modelSunset, retirementState } from '../domain/retirement.ts';
import { priceTimes, retirementSchedule } from './read-messages.ts';

/** The models that a caller may know of: public ones, and private ones granted to the organization. */
const knownTo = (snapshot: CatalogSnapshot, tenantId: string): CatalogModel[] =>
  snapshot.models.filter(
    ({ model, grantedTenantIds }) => model!.visibility !== Visibility.PRIVATE || grantedTenantIds.includes(tenantId),
  );

const isRetired = ({ retirement }: Model, nowMs: number): boolean =>
  retirement !== undefined && retirementState(retirementSchedule(retirement), nowMs) === 'retired';

type Narrowing = Pick<ListModelsRequest, 'search' | 'operations' | 'isServiceable' | 'isRetiring' | 'names'>;

/** The listing, narrowed as asked: a model leaves it at the instant of its retirement (service.md, States). */
export function listedEntries(
  snapshot: CatalogSnapshot,
  tenantId: string,
  nowMs: number,
  { search = '', operations = [], isServiceable, isRetiring, names }: Partial<Narrowing>,
): CatalogModel[] {
  const words = comparable(search).split(/\s+/).filter(Boolean);
  const named = new Set(names);
  const found = knownTo(snapshot, tenantId).filter((entry) => {
    const model = entry.model!;
    if (isRetired(model, nowMs)) return false;
    if (named.size > 0 && !named.has(model.name)) return false;
    if (operations.length > 0 && !model.operations.some((one) => operations.includes(one))) return false;
    if (isServiceable !== undefined && isServiceable !== serves(entry, nowMs)) return false;
    if (isRetiring !== undefined && isRetiring !== (model.retirement !== undefined)) return false;
    const text = words.length === 0 ? '' : comparable(`${model.name} ${model.displayName} ${model.ownedBy}`);
    return words.every((word) => text.includes(word));
  });
  const exact = words.length === 1 ? found.findIndex(({ model }) => comparable(model!.name) === words[0]) : -1;
  if (exact > 0) found.unshift(...found.splice(exact, 1));
  return found;
}

/** The whole of it, as callers see it. */
export const listedModels = (snapshot: CatalogSnapshot, tenantId: string, nowMs: number): Model[] =>
  listedEntries(snapshot, tenantId, nowMs, {}).map((entry) => publicModel(entry, nowMs));

const serves = ({ model, deployments }: CatalogModel, nowMs: number): boolean =>
  !isRetired(model!, nowMs) && deployments.some(({ status }) => isServing(status));

/** One model. What the caller may not know of does not exist; a retired one is gone (service.md, Errors). */
export function describedModel(snapshot: CatalogSnapshot, name: string, tenantId: string, nowMs: number): Model {
  const entry = knownTo(snapshot, tenantId).find(({ model }) => model!.name === name);
  if (entry === undefined) throw modelNotFound(name);
  const model = entry.model!;
  if (isRetired(model, nowMs)) throw modelSunset(model.name, retirementSchedule(model.retirement!));
  return publicModel(entry, nowMs);
}

/** Announced and retired models: the next date first, those without a date after them, retired ones last. */
export function deprecatedModels(snapshot: CatalogSnapshot, name: string, tenantId: string, nowMs: number): Model[] {
  const rank = (model: Model): number =>
    isRetired(model, nowMs) ? 2 : model.retirement?.sunsetAt === undefined ? 1 : 0;
  const date = (model: Model): number =>
    model.retirement?.sunsetAt === undefined ? 0 : timestampMs(model.retirement.sunsetAt);
  return knownTo(snapshot, tenantId)
    .filter(({ model }) => model!.retirement !== undefined && (name === '' || model!.name === name))
    .map((entry) => publicModel(entry, nowMs))
    .sort((a, b) => rank(a) - rank(b) || date(a) - date(b) || a.name.localeCompare(b.name));
}

/** A model with what its deployments and prices say of it now. A retired one does not serve. */
export function publicModel(entry: CatalogModel, nowMs: number): Model {
  const model = entry.model!;
  // By time: an earlier one that has not begun, by a clock that is behind, was overtaken and never will.
  const present = entry.prices.findLastIndex((price) => hasBegun(priceTimes(price), nowMs));
  return create(ModelSchema, {
    ...model,
    price: entry.prices[present],
    nextPrice: entry.prices[present + 1],
    deployments: entry.deployments.map(({ id, status }) => create(DeploymentSummarySchema, { id, status })),
    isServiceable: serves(entry, nowMs),
  });
}

/** An entry as operators see it: with all prices and deployments, and whether it serves now. */
export const withState = (entry: CatalogModel, nowMs: number): CatalogModel =>
  create(CatalogModelSchema, { ...entry, model: { ...publicModel(entry, nowMs), price: undefined } });
