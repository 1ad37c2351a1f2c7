import { create } from '@bufbuild/protobuf';
import type { Principal } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { type CallerConstraints, CallerConstraintsSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';

/** What InferenceService checks within a call that is made with a key. */
export const constraintsOfKey = ({ constraints, rateLimits }: Principal): CallerConstraints =>
  create(CallerConstraintsSchema, {
    modelAllowlist: constraints?.modelAllowlist ?? [],
    spendCapNanoUsd: constraints?.spendCapNanoUsd,
    requestsPerMinute: rateLimits?.requestsPerMinute ?? 0,
    tokensPerMinute: rateLimits?.tokensPerMinute ?? 0,
    concurrentRequests: rateLimits?.concurrentRequests ?? 0,
  });

/** Whether a key's allowlist leaves the model in; an empty one leaves all in. */
export const allowsModel = (constraints: CallerConstraints | undefined, model: string): boolean =>
  constraints === undefined || constraints.modelAllowlist.length === 0 || constraints.modelAllowlist.includes(model);
