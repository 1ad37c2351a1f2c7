import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import {
  QuotaRequestSchema,
  type QuotaResponse,
  QuotaResponseSchema,
} from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { GatewayError } from '#shared/errors.ts';
import type { RateLimits } from '#shared/rate-limits.ts';
import { grantReportMs, RateLimitGrants } from '../../services/models/limits/rate-limit-grants.ts';
import { type RateAdmission, RateLimiter } from '../../services/models/limits/rate-limiter.ts';
import { emptyBuckets, grantDemand, minuteMs } from '../../services/usage/domain/rate-limit-bucket.ts';
import { SeededRandom } from '../support/leases/schedule.ts';
import { silentLogger } from '../support/silent-logger.ts';

const key = { apiKeyId: '0190c8a0-0000-7000-8000-000000000001', userId: '' };

type Quota = (request: MessageInitShape<typeof QuotaRequestSchema>) => Promise<QuotaResponse>;

class Replica {
  readonly limiter: RateLimiter;
  readonly grants: RateLimitGrants;
  #asked: () => void = () => {};
  #arrival: Promise<void> = Promise.resolve();

  constructor(time: { ms: number }, quota: Quota) {
    this.limiter = new RateLimiter(() => time.ms);
    const usage = {
      quota: async (request: Parameters<Quota>[0]) => {
        const answer = await quota(request);
        this.#asked();
        await this.#arrival;
        return answer;
      },
    };
    this.grants = new RateLimitGrants({ limiter: this.limiter, usage, logger: silentLogger });
  }

  /** From now on answers arrive when told to; `asked` resolves once Usage has given one. */
  answersLater(): { asked: Promise<void>; resolve(): void } {
    const asked = Promise.withResolvers<void>();
    const arrival = Promise.withResolvers<void>();
    this.#asked = asked.resolve;
    this.#arrival = arrival.promise;
    return { asked: asked.promise, resolve: arrival.resolve };
  }
}

/** Replicas on one clock, granted by Usage's own computation, with an in-memory bucket instead of its table. */
function startReplicas(count: number) {
  const time = { ms: 0 };
  const bucket = { ...emptyBuckets, leakedMs: 0 };
  const concurrent = new Map<string, number>();
  const quota = async (request: MessageInitShape<typeof QuotaRequestSchema>) => {
    const { replicaId, demands } = create(QuotaRequestSchema, request);
    const elapsedMs = time.ms - bucket.leakedMs;
    bucket.leakedMs = time.ms;
    const shares = demands.map((demand) => {
      concurrent.delete(replicaId);
      const levels = {
        ...bucket,
        requestsMs: Math.max(0, bucket.requestsMs - elapsedMs),
        tokensMs: Math.max(0, bucket.tokensMs - elapsedMs),
      };
      const granted = grantDemand(demand, levels, [...concurrent.values()], count);
      if (granted.concurrent > 0) concurrent.set(replicaId, granted.concurrent);
      Object.assign(bucket, granted.levels);
      return granted.share;
    });
    if (demands.length === 0) bucket.leakedMs -= elapsedMs;
    return create(QuotaResponseSchema, { replicas: count, shares });
  };
  const replicas = Array.from({ length: count }, () => new Replica(time, quota));
  return { time, replicas, tick: () => Promise.all(replicas.map(({ grants }) => grants.tick())) };
}

test.each([
  [2, { requestsPerMinute: 60, tokensPerMinute: 1_000_000, concurrentRequests: 100 }],
  [4, { requestsPerMinute: 600, tokensPerMinute: 1_000_000, concurrentRequests: 100 }],
  [4, { requestsPerMinute: 6_000, tokensPerMinute: 60_000, concurrentRequests: 100 }],
  [3, { requestsPerMinute: 6_000, tokensPerMinute: 1_000_000, concurrentRequests: 7 }],
])(
  '%i replicas let through no more than the limit and its burst, and nearly all of it, wherever it is asked for: %o',
  async (count, limits: RateLimits) => {
    const random = new SeededRandom(count);
    const { time, replicas, tick } = startReplicas(count);
    await tick();
    const stepMs = 100;
    let [requests, tokens, running] = [0, 0, 0];
    const ends = new Map<number, (() => void)[]>();
    const minutes = 2;
    for (; time.ms < minutes * minuteMs; time.ms += stepMs) {
      if (time.ms % grantReportMs === 0) await tick();
      for (const end of ends.get(time.ms) ?? []) end();
      ends.delete(time.ms);
      // The load moves: for some seconds to one replica, then to all of them.
      const phase = Math.floor(time.ms / 5_000);
      const calls = Array.from({ length: 12 }, async (_, index) => {
        const { limiter } = replicas[phase % 2 === 0 ? index % count : phase % count]!;
        const estimate = random.between(10, 100);
        const used = random.between(1, estimate);
        const endsMs = time.ms + stepMs * random.between(1, 6);
        try {
          const admission = await limiter.admit(key, limits, estimate);
          requests += 1;
          tokens += used;
          running += 1;
          expect(running).toBeLessThanOrEqual(limits.concurrentRequests);
          const end = () => {
            running -= 1;
            admission.release(used);
          };
          ends.set(endsMs, [...(ends.get(endsMs) ?? []), end]);
        } catch (error) {
          expect(error).toBeInstanceOf(GatewayError);
        }
      });
      await Promise.all(calls);
      const allowed = 1.01 * (1 + (time.ms + stepMs) / minuteMs);
      expect(requests).toBeLessThanOrEqual(limits.requestsPerMinute * allowed);
      expect(tokens).toBeLessThanOrEqual(limits.tokensPerMinute * allowed);
    }
    const used = Math.max(requests / limits.requestsPerMinute, tokens / limits.tokensPerMinute) / (1 + minutes);
    if (limits.concurrentRequests === 100) expect(used).toBeGreaterThan(0.9);
  },
);

test('a replica that needs less room for concurrent calls gives it up before Usage knows', async () => {
  const limits = { requestsPerMinute: 6_000, tokensPerMinute: 1_000_000, concurrentRequests: 10 };
  const { time, replicas, tick } = startReplicas(2);
  const [one, other] = replicas as [Replica, Replica];
  await tick();
  let running = 0;
  const begin = async ({ limiter }: Replica): Promise<RateAdmission | undefined> => {
    const admission = await Promise.resolve()
      .then(() => limiter.admit(key, limits, 1))
      .catch(() => undefined);
    if (admission !== undefined) running += 1;
    return admission;
  };
  const crowd = (replica: Replica) => Promise.all(Array.from({ length: 10 }, () => begin(replica)));
  for (const admission of await crowd(one)) {
    admission?.release(1);
    running -= admission === undefined ? 0 : 1;
  }
  expect(running).toBe(0);
  // There are no calls in the next second; Usage hears so, and its answer takes a while.
  time.ms += grantReportMs;
  await tick();
  time.ms += grantReportMs;
  const { asked, resolve } = one.answersLater();
  const telling = one.grants.tick();
  await asked;
  await other.grants.tick();
  const crowds = [crowd(one), crowd(other)];
  await crowds[1];
  resolve();
  await telling;
  await Promise.all(crowds);
  expect(running).toBe(10);
});

test('what a replica was granted before it stood still for a minute is neither used nor taken from what others have let through since', async () => {
  const limits = { requestsPerMinute: 6_000, tokensPerMinute: 60_000, concurrentRequests: 100 };
  const { time, replicas, tick } = startReplicas(2);
  const [frozen, other] = replicas as [Replica, Replica];
  await tick();
  /** How many calls of 1,000 tokens one replica lets through. */
  const passing = async ({ limiter }: Replica, calls: number): Promise<number> => {
    let passed = 0;
    for (let call = 0; call < calls; call += 1) {
      const admission = await Promise.resolve()
        .then(() => limiter.admit(key, limits, 1_000))
        .catch(() => undefined);
      admission?.release(1_000);
      if (admission !== undefined) passed += 1;
    }
    return passed;
  };
  expect(await passing(frozen, 20)).toBe(20);
  time.ms += grantReportMs;
  await tick();
  time.ms += minuteMs;
  expect(await passing(other, 100)).toBe(60);
  // It reads what its clients have sent before its timers tell that it is late.
  expect(await passing(frozen, 100)).toBe(0);
  await tick();
  time.ms += grantReportMs;
  await tick();
  expect((await passing(other, 100)) + (await passing(frozen, 100))).toBeLessThanOrEqual(1);
});
