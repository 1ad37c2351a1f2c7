import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { RateLimitStateSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { rateLimitHeaders } from './rate-limit-headers.ts';

/** The examples of openai-contract.md section 1 are 20ms, 1.2s and 6m0s. */
test.each([
  [0, '0ms'],
  [20, '20ms'],
  [999, '999ms'],
  [1_000, '1s'],
  [1_200, '1.2s'],
  [59_994, '59.99s'],
  [59_999, '1m0s'],
  [90_500, '1m30.5s'],
  [360_000, '6m0s'],
  [3_600_000, '1h0m0s'],
])('a wait of %d ms is written as Go writes durations: %s', (ms, told) => {
  const state = create(RateLimitStateSchema, { resetRequestsMs: ms, resetTokensMs: ms });
  const headers = rateLimitHeaders(state);
  expect([headers['x-ratelimit-reset-requests'], headers['x-ratelimit-reset-tokens']]).toEqual([told, told]);
});
