import { afterAll, beforeAll, expect, test } from 'vitest';
import { RateLimitSubjectKind } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { keyId, tenantId, testId, userId } from '../fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, type TestUsage } from '../fixtures/test-usage.ts';

let usage: TestUsage;
beforeAll(async () => {
  usage = await startTestUsage();
});
afterAll(() => usage[Symbol.asyncDispose]());

const limits = { requestsPerMinute: 1_000, tokensPerMinute: 100_000, concurrentRequests: 50 };
const subject = { kind: RateLimitSubjectKind.API_KEY, id: keyId };
const key = asPerson({ tenantId, userId, apiKeyId: keyId });
const first = testId(61);
const second = testId(62);

const report = async (replicaId: string, requests: number) => {
  const demands = [{ subject, requests, tokens: BigInt(requests), concurrentRequests: 1, limits }];
  const { shares, replicas } = await usage.client.quota({ replicaId, demands }, asService());
  return { share: shares[0]!.share!.requestsPerMinute, replicas };
};

test('without other replicas the limits are whole, and the asking edge says what is left', async () => {
  expect(await report(first, 10)).toEqual({ share: 1_000, replicas: 1 });
  const local = { remainingRequests: 990, resetRequestsMs: 600, remainingTokens: 99_000, resetTokensMs: 500 };
  const answer = await usage.client.getRateLimits({ limits, local, localConcurrentRequests: 3 }, key);
  expect(answer).toMatchObject({
    subject,
    limits,
    state: { limitRequests: 1_000, remainingRequests: 990, limitTokens: 100_000, remainingTokens: 99_000 },
    remainingConcurrentRequests: 47,
  });
});

test('replicas share by demand, and their parts never exceed the whole', async () => {
  // The newcomer begins with its even part of a tenth, which the first gives up at its next report.
  let a = (await report(first, 10)).share;
  let b = (await report(second, 0)).share;
  expect([a, b]).toEqual([1_000, 50]);
  const demands = [
    [10, 10],
    [0, 30],
    [0, 30],
    [30, 0],
    [30, 0],
    [30, 30],
  ] as const;
  for (const [requestsA, requestsB] of demands) {
    a = (await report(first, requestsA)).share;
    expect(a + b).toBeLessThanOrEqual(1_000);
    b = (await report(second, requestsB)).share;
    expect(a + b).toBeLessThanOrEqual(1_000);
    expect(Math.min(a, b)).toBeGreaterThanOrEqual(50);
  }
  for (let round = 0; round < 6; round += 1) {
    a = (await report(first, 60)).share;
    b = (await report(second, 0)).share;
  }
  expect(a).toBeGreaterThan(b * 3);
});

test('with several replicas what is left is summed over them', async () => {
  await report(first, 100);
  await report(second, 50);
  const local = { remainingRequests: 1_000, remainingTokens: 100_000 };
  const { state, remainingConcurrentRequests } = await usage.client.getRateLimits({ limits, local }, key);
  expect(state!.remainingRequests).toBeLessThan(900);
  expect(remainingConcurrentRequests).toBe(48);
});

test('unset limits are the platform’s, and a session’s are counted for its user', async () => {
  const answer = await usage.client.getRateLimits({ limits: {} }, asPerson({ tenantId, userId }));
  expect(answer.limits).toMatchObject({ requestsPerMinute: 600, tokensPerMinute: 200_000, concurrentRequests: 100 });
  expect(answer.subject).toMatchObject({ kind: RateLimitSubjectKind.USER, id: userId });
});

test('only services may ask for shares', async () => {
  await expect(usage.client.quota({ replicaId: first }, key)).rejects.toMatchObject({
    reason: ErrorReason.INSUFFICIENT_ROLE,
  });
});
