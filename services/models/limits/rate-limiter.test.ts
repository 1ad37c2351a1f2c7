import { expect, test } from 'vitest';
import { ErrorReason, GatewayError } from '#shared/errors.ts';
import type { RateLimits } from '#shared/rate-limits.ts';
import { type RateAdmission, RateLimiter } from './rate-limiter.ts';

const key = { apiKeyId: 'key', userId: 'user' };
const limits: RateLimits = { requestsPerMinute: 60, tokensPerMinute: 6_000, concurrentRequests: 1_000 };

function limiterAt(start = 0) {
  const time = { ms: start };
  return { time, limiter: new RateLimiter(() => time.ms) };
}

/** The admission, or the reason of the refusal. Alone, a process never has to ask. */
function tryAdmit(limiter: RateLimiter, tokens = 0, own: Partial<RateLimits> = {}): RateAdmission | ErrorReason {
  try {
    return limiter.admit(key, { ...limits, ...own }, tokens) as RateAdmission;
  } catch (error) {
    if (error instanceof GatewayError) return error.reason;
    throw error;
  }
}

const isAdmitted = (outcome: RateAdmission | ErrorReason): boolean => typeof outcome === 'object';

test('a minute’s worth may come at once, and then one each second; never more in any minute than the limit and that burst', () => {
  const { time, limiter } = limiterAt();
  const admittedAt: number[] = [];
  for (; time.ms < 5 * 60_000; time.ms += 250) if (isAdmitted(tryAdmit(limiter))) admittedAt.push(time.ms);
  expect(admittedAt.filter((ms) => ms < 60_000)).toHaveLength(60 + 60 - 1);
  for (const from of admittedAt) {
    const inMinute = admittedAt.filter((ms) => ms >= from && ms < from + 60_000).length;
    expect(inMinute).toBeLessThanOrEqual(120);
    if (from > 60_000) expect(inMinute).toBeLessThanOrEqual(60);
  }
});

test('refusals say how long to wait, and after that wait the request passes', () => {
  const { time, limiter } = limiterAt();
  for (let count = 0; count < 60; count++) tryAdmit(limiter);
  time.ms = 300;
  let waitMs = 0;
  try {
    limiter.admit(key, { ...limits, requestsPerMinute: 6 }, 0);
  } catch (error) {
    waitMs = (error as GatewayError).details.retryAfterMs!;
  }
  expect(waitMs).toBeGreaterThanOrEqual(1_000);
  time.ms += waitMs;
  expect(isAdmitted(tryAdmit(limiter, 0, { requestsPerMinute: 6 }))).toBe(true);
});

test('tokens are held by their estimate and corrected at the end, up as well as down', () => {
  const { limiter } = limiterAt();
  const first = tryAdmit(limiter, 4_000) as RateAdmission;
  expect(first.reading).toMatchObject({ limitTokens: 6_000, remainingTokens: 2_000, remainingRequests: 59 });
  expect(tryAdmit(limiter, 3_000)).toBe(ErrorReason.TOKEN_RATE_LIMITED);
  first.release(1_000);
  expect(limiter.read(key, limits).remainingTokens).toBe(5_000);
  const second = tryAdmit(limiter, 3_000) as RateAdmission;
  second.release(5_500);
  expect(limiter.read(key, limits).remainingTokens).toBe(0);
  expect(tryAdmit(limiter, 1)).toBe(ErrorReason.TOKEN_RATE_LIMITED);
});

test('a request larger than the whole token limit passes alone, for it could never pass otherwise', () => {
  const { limiter } = limiterAt();
  expect(isAdmitted(tryAdmit(limiter, 100_000))).toBe(true);
  expect(tryAdmit(limiter, 1)).toBe(ErrorReason.TOKEN_RATE_LIMITED);
});

test('what runs at a time is counted until its end, and refused requests count nothing', () => {
  const { limiter } = limiterAt();
  const running = [tryAdmit(limiter, 0, { concurrentRequests: 2 }), tryAdmit(limiter, 0, { concurrentRequests: 2 })];
  expect(tryAdmit(limiter, 0, { concurrentRequests: 2 })).toBe(ErrorReason.RATE_LIMITED);
  expect([limiter.running(key), limiter.read(key, limits).remainingRequests]).toEqual([2, 58]);
  (running[0] as RateAdmission).release(0);
  expect(isAdmitted(tryAdmit(limiter, 0, { concurrentRequests: 2 }))).toBe(true);
});

test('another key, and the user’s session, have limits of their own', () => {
  const { limiter } = limiterAt();
  for (let count = 0; count < 61; count++) tryAdmit(limiter);
  expect(tryAdmit(limiter)).toBe(ErrorReason.RATE_LIMITED);
  for (const other of [
    { apiKeyId: 'other', userId: 'user' },
    { apiKeyId: '', userId: 'user' },
  ]) {
    expect((limiter.admit(other, limits, 0) as RateAdmission).reading.remainingRequests).toBe(59);
  }
});

test('a share asks for more when the whole limit has room, and what was taken before counts in the new share', async () => {
  const { limiter } = limiterAt();
  limiter.unreportedShare = 0.05;
  const asked: string[] = [];
  limiter.askForShares = async (subjectId) => {
    asked.push(subjectId);
    limiter.setShare(subjectId, 0.5);
  };
  for (let count = 0; count < 3; count++) expect(isAdmitted(tryAdmit(limiter))).toBe(true);
  expect(asked).toEqual([]);
  // The fourth is beyond a twentieth, so that a half is asked for: three of its thirty are taken.
  const { reading } = await limiter.admit(key, limits, 0);
  expect(asked).toEqual(['key']);
  expect(reading.remainingRequests).toBe(60 - 2 * 4);
  for (let count = 0; count < 26; count++) await limiter.admit(key, limits, 0);
  limiter.askForShares = () => undefined;
  expect(tryAdmit(limiter)).toBe(ErrorReason.RATE_LIMITED);
  // Nobody asks when even the whole limit would be too little.
  limiter.askForShares = () => Promise.reject(new Error('asked'));
  expect(tryAdmit(limiter, 0, { requestsPerMinute: 1 })).toBe(ErrorReason.RATE_LIMITED);
});

test('what was let through under a large share still counts when the share shrinks and grows again', () => {
  const { time, limiter } = limiterAt();
  limiter.replicas = 2;
  limiter.unreportedShare = 0.05;
  (tryAdmit(limiter) as RateAdmission).release(0);
  limiter.setShare('key', 1);
  for (let count = 0; count < 59; count++) (tryAdmit(limiter) as RateAdmission).release(0);
  for (let swing = 0; swing < 10; swing++) {
    limiter.setShare('key', 0.05);
    expect(tryAdmit(limiter)).toBe(ErrorReason.RATE_LIMITED);
    limiter.setShare('key', 1);
    expect(tryAdmit(limiter)).toBe(ErrorReason.RATE_LIMITED);
  }
  // Quiet for a minute, half of it has leaked out: an even part of two.
  limiter.takeDemands(true);
  limiter.takeDemands(true);
  time.ms += 60_000;
  limiter.setShare('key', 1);
  expect(limiter.read(key, limits).remainingRequests).toBe(30);
});

test('demand is told since the last report; who has gone quiet loses the share at the report in turn', () => {
  const { limiter } = limiterAt();
  (tryAdmit(limiter, 500) as RateAdmission).release(200);
  expect(limiter.takeDemands(true)).toEqual([
    { id: 'key', isKey: true, requests: 1, tokens: 200, concurrentRequests: 0, limits },
  ]);
  limiter.setShare('key', 0.9);
  limiter.unreportedShare = 0.05;
  // Out of turn the subject is reported once more, since it may only have paused.
  expect(limiter.takeDemands(false)).toMatchObject([{ requests: 0, tokens: 0 }]);
  expect(limiter.takeDemands(true)).toEqual([]);
  expect(limiter.takeDemands(true)).toEqual([]);
});
