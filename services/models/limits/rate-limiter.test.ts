import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { createValidator } from '@bufbuild/protovalidate';
import { describe, expect, test } from 'vitest';
import { type QuotaDemand, QuotaShareSchema } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { QuotaRequestSchema, QuotaResponseSchema } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { ErrorReason, GatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { RateLimits } from '#shared/rate-limits.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { RateLimitGrants } from './rate-limit-grants.ts';
import { type RateAdmission, RateLimiter } from './rate-limiter.ts';

const validator = createValidator();
const key = { apiKeyId: uuidv7(), userId: uuidv7() };
const limits: RateLimits = { requestsPerMinute: 60, tokensPerMinute: 6_000, concurrentRequests: 1_000 };

function limiterAt(start = 0) {
  const time = { ms: start };
  return { time, limiter: new RateLimiter(() => time.ms) };
}

/** The admission, or the reason for the refusal. A single process never has to ask. */
function tryAdmit(limiter: RateLimiter, tokens = 0, own: Partial<RateLimits> = {}): RateAdmission | ErrorReason {
  try {
    return limiter.admit(key, { ...limits, ...own }, tokens) as RateAdmission;
  } catch (error) {
    if (error instanceof GatewayError) return error.reason;
    throw error;
  }
}

const isAdmitted = (outcome: RateAdmission | ErrorReason): boolean => typeof outcome === 'object';

test('a minute’s worth may come at once, then one each second; no minute has more than the limit plus that burst', () => {
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

test('whatever a call is said to have used, its tokens block others for at most one more minute', () => {
  const { time, limiter } = limiterAt();
  const used = tryAdmit(limiter, 3_000) as RateAdmission;
  used.release(100_000_000);
  // The estimate's half minute, and the whole one beyond it.
  time.ms += 89_000;
  expect(limiter.read(key, limits).remainingTokens).toBe(5_900);
  expect(isAdmitted(tryAdmit(limiter, 5_900))).toBe(true);
});

test('a request larger than the whole token limit passes when alone, since it could never pass otherwise, and waits only for that', () => {
  const { limiter: busy } = limiterAt();
  tryAdmit(busy, 100);
  expect(() => busy.admit(key, limits, 100_000)).toThrow('Try again in 1 s.');
  const { limiter } = limiterAt();
  expect(isAdmitted(tryAdmit(limiter, 100_000))).toBe(true);
  expect(tryAdmit(limiter, 1)).toBe(ErrorReason.TOKEN_RATE_LIMITED);
});

test('of a raised limit only what was used is gone, not the time that it takes up of the old one', () => {
  const { time, limiter } = limiterAt();
  const before = { requestsPerMinute: 2, tokensPerMinute: 100 };
  const after = { requestsPerMinute: 60, tokensPerMinute: 10_000 };
  // More than the limit passes an untouched bucket, and fills it for twenty minutes.
  for (const tokens of [0, 2_000]) expect(isAdmitted(tryAdmit(limiter, tokens, before))).toBe(true);
  expect(tryAdmit(limiter, 10, before)).toBe(ErrorReason.RATE_LIMITED);
  time.ms += 60_000;
  expect(tryAdmit(limiter, 10, before)).toBe(ErrorReason.TOKEN_RATE_LIMITED);
  const { reading } = tryAdmit(limiter, 10, after) as RateAdmission;
  expect(reading).toMatchObject({ remainingTokens: 10_000 - 1_900 - 10, remainingRequests: 59 });
});

test('a lowered limit makes nobody wait longer for what the old one let through', () => {
  const { time, limiter } = limiterAt();
  tryAdmit(limiter, 6_000);
  time.ms += 30_000;
  expect(isAdmitted(tryAdmit(limiter, 50, { tokensPerMinute: 100 }))).toBe(true);
});

test('concurrent calls count until their end, and refused requests do not count', () => {
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
    { apiKeyId: uuidv7(), userId: key.userId },
    { apiKeyId: '', userId: key.userId },
  ]) {
    expect((limiter.admit(other, limits, 0) as RateAdmission).reading.remainingRequests).toBe(59);
  }
});

describe('among several replicas', () => {
  /** A limiter among `replicas`, whose subject is granted what it asks for, up to `room` requests. */
  function granted(room: number) {
    const { time, limiter } = limiterAt();
    const state = {
      room,
      tokenRoom: Number.POSITIVE_INFINITY,
      running: Number.POSITIVE_INFINITY,
      replicas: 2,
      isAway: false,
    };
    const reports: QuotaDemand[][] = [];
    const quota = async (request: MessageInitShape<typeof QuotaRequestSchema>) => {
      if (state.isAway) throw new GatewayError(ErrorReason.OVERLOADED, 'away');
      const message = create(QuotaRequestSchema, request);
      expect(validator.validate(QuotaRequestSchema, message).kind).toBe('valid');
      const { demands } = message;
      if (demands.length > 0) reports.push(demands);
      const shares = demands.map((demand) => {
        state.room -= Number(demand.requestsSettled);
        const requests = Math.max(0, Math.min(demand.requests, state.room));
        state.room -= requests;
        const requestsFill = 1 - state.room / limits.requestsPerMinute;
        return create(QuotaShareSchema, {
          subject: demand.subject,
          requests,
          tokens: BigInt(Math.min(Number(demand.tokens), state.tokenRoom)),
          concurrentRequests: Math.min(demand.concurrentRequests, state.running),
          requestsFill,
          tokensFill: 0.5,
        });
      });
      return create(QuotaResponseSchema, { replicas: state.replicas, shares });
    };
    const grants = new RateLimitGrants({ limiter, usage: { quota }, logger: silentLogger });
    return { time, limiter, state, reports, tick: () => grants.tick() };
  }
  const admit = async (limiter: RateLimiter): Promise<RateAdmission> => await limiter.admit(key, limits, 10);

  test('what was granted needs no asking, and the limit is what all replicas together let through', async () => {
    const { limiter, reports, state, tick } = granted(20);
    await tick();
    const admissions = await Promise.all(Array.from({ length: 20 }, () => admit(limiter)));
    expect(admissions.at(-1)!.reading.remainingRequests).toBe(0);
    expect(state.room).toBe(0);
    // One report about the first, and one about all that came while it was in flight.
    expect(reports).toHaveLength(2);
    expect(tryAdmit(limiter)).toBe(ErrorReason.RATE_LIMITED);
    expect(reports).toHaveLength(2);
    state.room = 60;
    await tick();
    expect(isAdmitted(tryAdmit(limiter))).toBe(true);
    expect(limiter.read(key, limits).remainingRequests).toBe(59);
  });

  test('what was granted to those waiting is not taken by those who arrive at the same moment: all find room', async () => {
    const { limiter, tick } = granted(60);
    await tick();
    const few = { ...limits, concurrentRequests: 4 };
    const call = async () => limiter.admit(key, few, 10);
    const ask = limiter.askForGrants;
    let last: ReturnType<typeof call> | undefined;
    limiter.askForGrants = async () => {
      await ask();
      // The grant has arrived, and those waiting for it have not continued yet.
      last ??= call();
    };
    await Promise.all([call(), call()]);
    await last;
    expect(limiter.running(key)).toBe(3);
  });

  test.each([
    ['4 concurrent requests', ErrorReason.RATE_LIMITED, { running: 0 }],
    ['60 requests per minute', ErrorReason.RATE_LIMITED, { room: 0 }],
    ['6000 tokens per minute', ErrorReason.TOKEN_RATE_LIMITED, { tokenRoom: 0 }],
  ])('a refusal names the limit whose remainder other replicas hold: %s', async (limit, reason, left) => {
    const { limiter, state, reports, tick } = granted(60);
    await tick();
    Object.assign(state, left);
    const refused = async () => limiter.admit(key, { ...limits, concurrentRequests: 4 }, 100);
    const message = `Rate limit reached: ${limit}. Try again in 1 s.`;
    // The first has waited for a grant; the second is told of it without asking again.
    for (let time = 0; time < 2; time++) await expect(refused()).rejects.toMatchObject({ reason, message });
    expect(reports).toHaveLength(1);
  });

  test('a call that asks for more tokens than any limit allows causes no report that Usage refuses, nor a figure too large for messages', async () => {
    const { limiter, tick } = granted(60);
    await tick();
    const small = { ...limits, tokensPerMinute: 1_000 };
    const { reading, release } = await limiter.admit(key, small, 128_000_000_024);
    expect(limiter.isCutOff).toBe(false);
    expect(reading.resetTokensMs).toBeLessThan(2 ** 32);
    release(10);
    await tick();
    expect(limiter.isCutOff).toBe(false);
  });

  test('a quiet replica returns what is left, and a refused one asks again after 200 ms', async () => {
    const { time, limiter, reports, state, tick } = granted(3);
    await tick();
    for (let count = 0; count < 3; count++) (await admit(limiter)).release(10);
    await tick();
    await tick();
    expect(reports.at(-1)).toMatchObject([{ requests: 0, concurrentRequests: 0 }]);
    expect(state.room).toBe(0);
    const told = reports.length;
    await tick();
    expect(reports).toHaveLength(told);

    // The room is gone here, but another replica may have returned some, so it is asked for, though not for every request.
    const asked = reports.length;
    time.ms += 1_000;
    await expect(admit(limiter)).rejects.toMatchObject({ reason: ErrorReason.RATE_LIMITED });
    await expect(Promise.resolve().then(() => admit(limiter))).rejects.toMatchObject({
      reason: ErrorReason.RATE_LIMITED,
    });
    expect(reports).toHaveLength(asked + 1);
    time.ms += 1_000;
    state.room = 1;
    expect((await admit(limiter)).reading.limitRequests).toBe(60);
  });

  test('a hundredth of the limits is used without asking, and included in the next report', async () => {
    const { limiter, reports, tick } = granted(0);
    await tick();
    const large = { requestsPerMinute: 1_000, tokensPerMinute: 1_000_000, concurrentRequests: 100 };
    for (let count = 0; count < 5; count++) expect(limiter.admit(key, large, 100)).not.toBeInstanceOf(Promise);
    const sixth = limiter.admit(key, large, 100);
    expect(sixth).toBeInstanceOf(Promise);
    await expect(sixth).rejects.toMatchObject({ reason: ErrorReason.RATE_LIMITED });
    await tick();
    expect(reports[0]).toMatchObject([{ requestsSettled: 5n, tokensSettled: 500n }]);
  });

  test('what a report told that did not arrive is told again by the next', async () => {
    const { limiter, reports, state, tick } = granted(60);
    await tick();
    const large = { requestsPerMinute: 1_000, tokensPerMinute: 1_000_000, concurrentRequests: 100 };
    for (let count = 0; count < 5; count++) expect(limiter.admit(key, large, 100)).not.toBeInstanceOf(Promise);
    state.isAway = true;
    await tick();
    state.isAway = false;
    await tick();
    expect(reports).toMatchObject([[{ requestsSettled: 5n, tokensSettled: 500n }]]);
  });

  test('a replica that ran something tells that it no longer does until Usage has heard it: others lack that room', async () => {
    const { limiter, reports, state, tick } = granted(60);
    await tick();
    (await admit(limiter)).release(10);
    await tick();
    expect(reports.at(-1)).toMatchObject([{ concurrentRequests: 1 }]);
    state.isAway = true;
    await tick();
    state.isAway = false;
    await tick();
    expect(reports.at(-1)).toMatchObject([{ concurrentRequests: 0 }]);
    const told = reports.length;
    await tick();
    expect(reports).toHaveLength(told);
  });

  test('a replica that was alone for a while tells the next one what it no longer runs', async () => {
    const { time, limiter, reports, state, tick } = granted(60);
    await tick();
    const admission = await admit(limiter);
    state.replicas = 1;
    await tick();
    admission.release(10);
    time.ms += 120_000;
    await tick();
    expect(reports.at(-1)).toMatchObject([{ concurrentRequests: 1 }]);
    state.replicas = 2;
    await tick();
    await tick();
    expect(reports.at(-1)).toMatchObject([{ concurrentRequests: 0 }]);
  });

  test('what passed while a replica was alone counts once another is there, and its grants are its own once it is alone again', async () => {
    const { limiter, reports, state, tick } = granted(60);
    for (let count = 0; count < 10; count++) (tryAdmit(limiter, 100) as RateAdmission).release(50);
    await tick();
    expect(reports).toMatchObject([[{ requestsSettled: 10n, tokensSettled: 500n }]]);
    expect(limiter.read(key, limits).remainingRequests).toBe(50);
    (await admit(limiter)).release(10);
    state.replicas = 1;
    await tick();
    expect(limiter.read(key, limits).remainingRequests).toBe(49);
    const told = reports.length;
    await tick();
    expect(reports).toHaveLength(told);
  });

  test('a replica that was alone for a moment, as the first that Usage hears after an outage, tells what passed then, and nothing that Usage knows', async () => {
    const { time, limiter, reports, state, tick } = granted(60);
    await tick();
    for (let count = 0; count < 40; count++) (await admit(limiter)).release(10);
    // Gives back what it does not need any more.
    for (let count = 0; count < 2; count++) await tick();
    expect(state.room).toBe(20);
    state.replicas = 1;
    await tick();
    time.ms += 1_000;
    for (let count = 0; count < 3; count++) (tryAdmit(limiter, 100) as RateAdmission).release(50);
    state.replicas = 2;
    await tick();
    expect(reports.at(-1)).toMatchObject([{ requestsSettled: 3n, tokensSettled: 150n }]);
  });

  test('without an answer a replica goes on by the bucket it knows, and later reports what it let through', async () => {
    const { time, limiter, state, tick, reports } = granted(60);
    await tick();
    await admit(limiter);
    state.isAway = true;
    for (let count = 0; count < 59; count++) await admit(limiter);
    expect(tryAdmit(limiter)).toBe(ErrorReason.RATE_LIMITED);
    // Its even part of the limit: one every two seconds.
    time.ms += 2_000;
    expect(isAdmitted(tryAdmit(limiter))).toBe(true);
    expect(tryAdmit(limiter)).toBe(ErrorReason.RATE_LIMITED);
    state.isAway = false;
    await tick();
    // Two had been granted.
    expect(reports.at(-1)).toMatchObject([{ requestsSettled: 59n }]);
  });

  test.each([
    ['passed while Usage was away', true, { requestsSettled: 6n, tokensSettled: 600n }],
    // What the next second would have needed, by which nothing passes any more.
    ['was granted', false, { requestsSettled: -7n, tokensSettled: -750n }],
  ])('under a lowered limit, what %s takes up no more time of it than of the old one', async (_what, isAway, told) => {
    const { limiter, reports, state, tick } = granted(6_000);
    await tick();
    const before = { ...limits, requestsPerMinute: 6_000, tokensPerMinute: 600_000 };
    state.isAway = isAway;
    const admissions = await Promise.all(Array.from({ length: 600 }, async () => limiter.admit(key, before, 100)));
    for (const { release } of admissions) release(100);
    await tick();
    limiter.read(key, limits);
    state.isAway = false;
    await tick();
    expect(reports.at(-1)).toMatchObject([told]);
  });

  test('the first replica that Usage hears after an outage takes itself for alone only if no other has come within a second', async () => {
    const { limiter, state, tick } = granted(60);
    await tick();
    state.isAway = true;
    await tick();
    Object.assign(state, { isAway: false, replicas: 1, running: 2 });
    await tick();
    const few = { ...limits, concurrentRequests: 10 };
    for (let round = 0; round < 2; round++)
      await Promise.allSettled(Array.from({ length: 20 }, async () => limiter.admit(key, few, 1)));
    expect([limiter.replicas, limiter.running(key)]).toEqual([2, 2]);
    await tick();
    expect(limiter.replicas).toBe(1);
  });

  test('after a long outage of Usage a caller who has stayed within its limit has all of it: what passed has leaked since', async () => {
    const { time, limiter, state, tick, reports } = granted(60);
    await tick();
    state.isAway = true;
    await tick();
    while (time.ms < 600_000) {
      (tryAdmit(limiter, 100) as RateAdmission).release(100);
      // Once a second it tries to tell what has passed.
      for (let tries = 0; tries < 2; tries++) {
        time.ms += 1_150;
        await tick();
      }
    }
    state.isAway = false;
    await tick();
    expect(reports).toMatchObject([[{ requestsSettled: 0n, tokensSettled: 0n }]]);
    for (let count = 0; count < 2; count++) await tick();
    const told = reports.length;
    await tick();
    expect(reports).toHaveLength(told);
  });
});
