import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import {
  type GetRateLimitStateRequest,
  GetRateLimitStateResponseSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { type RateLimiter, rateLimitsOf } from '../limits/rate-limiter.ts';

export const getRateLimitState =
  ({ limiter }: { limiter: RateLimiter }) =>
  (request: GetRateLimitStateRequest, context: HandlerContext) => {
    const caller = callerOf(context);
    const subject = caller.apiKeyId || caller.userId;
    return create(GetRateLimitStateResponseSchema, {
      state: limiter.read(subject, rateLimitsOf(request.constraints)),
      concurrentRequests: limiter.running(subject),
    });
  };
