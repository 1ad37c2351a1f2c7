import { create } from '@bufbuild/protobuf';
import type { Principal } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { type CallerConstraints, CallerConstraintsSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { WholeMessage } from '#shared/whole-message.ts';

/** What InferenceService checks during a call made with a key. */
export const constraintsOfKey = ({ constraints, rateLimits }: Principal): CallerConstraints =>
  create(CallerConstraintsSchema, {
    modelAllowlist: constraints?.modelAllowlist ?? [],
    spendCapNanoUsd: constraints?.spendCapNanoUsd,
    requestsPerMinute: rateLimits?.requestsPerMinute ?? 0,
    tokensPerMinute: rateLimits?.tokensPerMinute ?? 0,
    concurrentRequests: rateLimits?.concurrentRequests ?? 0,
  } satisfies WholeMessage<typeof CallerConstraintsSchema>);

/** Whether a key's allowlist includes the model; an empty one includes all. */
export const allowsModel = (constraints: CallerConstraints | undefined, model: string): boolean =>
  constraints === undefined || constraints.modelAllowlist.length === 0 || constraints.modelAllowlist.includes(model);
