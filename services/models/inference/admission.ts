import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { allowsModel } from '#shared/caller-constraints.ts';
import {
  ErrorReason,
  type GatewayError,
  gatewayError,
  invalidRequest,
  modelNotAllowed,
  modelNotFound,
} from '#shared/errors.ts';
import { type Catalog, isGranted, isServiceable, type ServedModel } from '../catalog/catalog.ts';
import { modelSunset, retirementState } from '../domain/retirement.ts';

/** How long a client should wait for a model that is not serving, in milliseconds. */
const unavailableRetryMs = 5_000;

/** What is asked of a model, and by whom. */
type ModelAsked = {
  /** As the request names it. */
  name: string;
  operation: Operation;
  tenantId: string;
  constraints: CallerConstraints | undefined;
};

/**
 * The model that a request names, if the caller may use it now. The order is that of decisions.md (Models): existence and grant, retired,
 * allowlist, serviceable. A model that the caller may not know of is refused in the same words as one that does not exist.
 */
export function admitModel(catalog: Catalog, asked: ModelAsked, nowMs: number): ServedModel {
  const model = allowedModel(catalog, asked, nowMs);
  if (!isServiceable(model)) throw modelUnavailable(model.name);
  return model;
}

/** Like admitModel, but the model need not be serving. It must not be retired at `nowMs`. */
export function allowedModel(
  catalog: Catalog,
  { name, operation, tenantId, constraints }: ModelAsked,
  nowMs: number,
): ServedModel {
  const model = catalog.find(name);
  if (model === undefined || !isGranted(model, tenantId)) throw modelNotFound(name);
  if (retirementState(model.retirement, nowMs) === 'retired') throw modelSunset(model.name, model.retirement!);
  if (!allowsModel(constraints, model.name)) throw modelNotAllowed(model.name);
  if (!model.operations.has(operation)) {
    throw invalidRequest('model', `The model \`${model.name}\` does not support this endpoint.`, 'unsupported_model');
  }
  return model;
}

export const modelUnavailable = (model: string, internal?: string): GatewayError =>
  gatewayError(
    ErrorReason.MODEL_UNAVAILABLE,
    `The model \`${model}\` is not serving at the moment. Try again shortly.`,
    {
      param: 'model',
      retryAfterMs: unavailableRetryMs,
      internal,
    },
  );

/** Nothing may run unmetered. */
export const cannotMeter = (): GatewayError =>
  gatewayError(ErrorReason.NO_CAPACITY, 'The gateway cannot take new requests at the moment. Try again shortly.', {
    retryAfterMs: 5_000,
    internal: 'the metering journal refuses writes',
  });
