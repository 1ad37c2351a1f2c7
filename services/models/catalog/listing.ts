import { create } from '@bufbuild/protobuf';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { type CatalogModel, CatalogModelSchema, type CatalogSnapshot } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { DeploymentSummarySchema, type Model, ModelSchema, Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { isServing } from '../domain/deployment-health.ts';
import { hasBegun } from '../domain/price.ts';
import { retirementState, sunsetMessage } from '../domain/retirement.ts';
import { modelNotFound, priceTimes, retirementSchedule } from './catalog.ts';

/** The models that a caller may know of: public ones, and private ones granted to the organization. */
const knownTo = (snapshot: CatalogSnapshot, tenantId: string): CatalogModel[] =>
  snapshot.models.filter(
    ({ model, grantedTenantIds }) => model!.visibility !== Visibility.PRIVATE || grantedTenantIds.includes(tenantId),
  );

const isRetired = ({ retirement }: Model, nowMs: number): boolean =>
  retirement !== undefined && retirementState(retirementSchedule(retirement), nowMs) === 'retired';

/** The listing: a model leaves it at the instant of its retirement (service.md, States). */
export const listedModels = (snapshot: CatalogSnapshot, tenantId: string, nowMs: number): Model[] =>
  knownTo(snapshot, tenantId)
    .filter(({ model }) => !isRetired(model!, nowMs))
    .map((entry) => publicModel(entry, nowMs));

/** One model. What the caller may not know of does not exist; a retired one is gone (service.md, Errors). */
export function describedModel(snapshot: CatalogSnapshot, name: string, tenantId: string, nowMs: number): Model {
  const entry = knownTo(snapshot, tenantId).find(({ model }) => model!.name === name);
  if (entry === undefined) throw modelNotFound(name);
  const model = entry.model!;
  if (isRetired(model, nowMs)) {
    throw gatewayError(ErrorReason.MODEL_SUNSET, sunsetMessage(model.name, retirementSchedule(model.retirement!)), {
      param: 'model',
    });
  }
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
function publicModel(entry: CatalogModel, nowMs: number): Model {
  const model = entry.model!;
  return create(ModelSchema, {
    ...model,
    price: entry.prices.findLast((price) => hasBegun(priceTimes(price), nowMs)),
    deployments: entry.deployments.map(({ id, status }) => create(DeploymentSummarySchema, { id, status })),
    isServiceable: !isRetired(model, nowMs) && entry.deployments.some(({ status }) => isServing(status)),
  });
}

/** An entry as operators see it: with all prices and deployments, and whether it serves now. */
export const withState = (entry: CatalogModel, nowMs: number): CatalogModel =>
  create(CatalogModelSchema, { ...entry, model: { ...publicModel(entry, nowMs), price: undefined } });
