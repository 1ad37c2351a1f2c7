import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  type GetRateLimitStateRequest,
  GetRateLimitStateResponseSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import type { RateLimitBook } from '../limits/rate-limit-book.ts';
import type { RateLimiter } from '../limits/rate-limiter.ts';

export const getRateLimitState =
  ({ limiter, rateLimits }: { limiter: RateLimiter; rateLimits: Pick<RateLimitBook, 'limitsOf'> }) =>
  (request: GetRateLimitStateRequest, context: HandlerContext) => {
    const caller = callerOf(context);
    const limits = rateLimits.limitsOf(caller.tenantId, request.constraints);
    return create(GetRateLimitStateResponseSchema, {
      state: limiter.read(caller, limits),
      concurrentRequests: limiter.running(caller),
      limitConcurrentRequests: limits.concurrentRequests,
    });
  };
