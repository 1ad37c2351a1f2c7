import { afterAll, beforeAll, expect, test } from 'vitest';
import { RateLimitSubjectKind } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason } from '#shared/errors.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { dropEmptyBuckets } from '../db/rate-limit-buckets.ts';
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

/** The database of Usage, past the service. */
async function openUsage() {
  const { logger } = logCollector();
  const connection = usage.databaseUrl;
  const database = await openServiceDatabase({ service: 'usage', connection, entities: [], poolMax: 1, logger });
  return Object.assign(database, { [Symbol.asyncDispose]: () => database.close() });
}

type Asked = Partial<Record<'requests' | 'requestsSettled' | 'tokens' | 'concurrentRequests', number>>;

async function report(
  replicaId: string,
  { requests = 0, requestsSettled = 0, tokens = 0, concurrentRequests = 0 }: Asked,
) {
  const demand = { subject, limits, requests, concurrentRequests };
  const demands = [{ ...demand, requestsSettled: BigInt(requestsSettled), tokens: BigInt(tokens) }];
  const { shares, replicas } = await usage.client.quota({ replicaId, demands }, asService());
  return { ...shares[0]!, replicas };
}

test('without other replicas the asking edge itself reports what is left', async () => {
  expect(await usage.client.quota({ replicaId: first }, asService())).toMatchObject({ replicas: 1, shares: [] });
  const local = { remainingRequests: 990, resetRequestsMs: 600, remainingTokens: 99_000, resetTokensMs: 500 };
  const answer = await usage.client.getRateLimits({ limits, local, localConcurrentRequests: 3 }, key);
  expect(answer).toMatchObject({
    subject,
    limits,
    state: { limitRequests: 1_000, remainingRequests: 990, limitTokens: 100_000, remainingTokens: 99_000 },
    remainingConcurrentRequests: 47,
  });
});

test('replicas are granted what they ask for until the minute’s worth is gone, and what one returns another gets', async () => {
  expect(await report(first, { requests: 600, tokens: 30_000, concurrentRequests: 1 })).toMatchObject({
    requests: 600,
    tokens: 30_000n,
    concurrentRequests: 1,
  });
  const other = await report(second, { requests: 600, tokens: 30_000, concurrentRequests: 1 });
  // Only what has leaked out meanwhile exceeds what the first left.
  expect(other.requests).toBeGreaterThanOrEqual(400);
  expect(other.requests).toBeLessThan(600);
  expect(other).toMatchObject({ tokens: 30_000n, replicas: 2 });
  const { requestsFill } = await report(first, { requests: 0, requestsSettled: -300, concurrentRequests: 1 });
  expect(requestsFill).toBeLessThanOrEqual(0.7);
  expect(await report(second, { requests: 300, concurrentRequests: 1 })).toMatchObject({ requests: 300 });
});

test('with several replicas what is left is what was granted to none', async () => {
  await report(first, { requestsSettled: 10_000, concurrentRequests: 1 });
  const local = { remainingRequests: 1_000, remainingTokens: 100_000 };
  const { state, remainingConcurrentRequests } = await usage.client.getRateLimits({ limits, local }, key);
  expect(state!.remainingRequests).toBe(0);
  expect(state!.remainingTokens).toBeLessThan(100_000);
  expect(remainingConcurrentRequests).toBe(48);
});

test('concurrent requests are granted up to the limit, and a tenth is kept for those who have not asked', async () => {
  // 50 for two replicas: each may run two without asking.
  expect((await report(first, { concurrentRequests: 60 })).concurrentRequests).toBe(48);
  expect((await report(second, { concurrentRequests: 60 })).concurrentRequests).toBe(2);
  expect((await report(first, {})).concurrentRequests).toBe(0);
  expect((await report(second, { concurrentRequests: 60 })).concurrentRequests).toBe(48);
});

test('unset limits are the platform’s, and a session’s count for its user', async () => {
  const answer = await usage.client.getRateLimits({ limits: {} }, asPerson({ tenantId, userId }));
  expect(answer.limits).toMatchObject({ requestsPerMinute: 600, tokensPerMinute: 200_000, concurrentRequests: 100 });
  expect(answer.subject).toMatchObject({ kind: RateLimitSubjectKind.USER, id: userId });
});

test('a bucket whose requests have leaked out is kept until its tokens have too', async () => {
  await using database = await openUsage();
  const other = { kind: RateLimitSubjectKind.API_KEY, id: testId(63) };
  const ask = { subject: other, limits, tokens: 60_000n };
  await usage.client.quota({ replicaId: first, demands: [ask] }, asService());
  await dropEmptyBuckets(database);
  const { shares } = await usage.client.quota({ replicaId: second, demands: [ask] }, asService());
  expect(shares[0]!.tokens).toBeLessThan(60_000n);
});

test('of a raised limit only what was used is gone, not the time that it takes up of the old one', async () => {
  const raised = { kind: RateLimitSubjectKind.API_KEY, id: testId(65) };
  const ask = async (tokensPerMinute: number, tokens: bigint) => {
    const demands = [{ subject: raised, limits: { ...limits, tokensPerMinute }, tokens }];
    return (await usage.client.quota({ replicaId: first, demands }, asService())).shares[0]!;
  };
  // More than the limit is granted from an untouched bucket, and fills it for twenty minutes.
  expect((await ask(100, 2_000n)).tokens).toBe(2_000n);
  expect((await ask(100, 10n)).tokens).toBe(0n);
  await usage.client.quota({ replicaId: second }, asService());
  const caller = asPerson({ tenantId, userId, apiKeyId: raised.id });
  const { state } = await usage.client.getRateLimits({ limits: { ...limits, tokensPerMinute: 10_000 } }, caller);
  expect(state!.remainingTokens).toBeGreaterThanOrEqual(8_000);
  expect((await ask(10_000, 8_000n)).tokens).toBe(8_000n);
});

test('replicas that disagree about a limit, since one has not heard of a change yet, let no more through than the larger one', async () => {
  const changed = { kind: RateLimitSubjectKind.API_KEY, id: testId(66) };
  const ask = async (replicaId: string, tokensPerMinute: number) => {
    const demands = [{ subject: changed, limits: { ...limits, tokensPerMinute }, tokens: BigInt(tokensPerMinute) }];
    return Number((await usage.client.quota({ replicaId, demands }, asService())).shares[0]!.tokens);
  };
  let granted = 0;
  for (let round = 0; round < 5; round += 1) granted += (await ask(first, 10_000)) + (await ask(second, 100));
  // A minute's worth, and what has leaked out meanwhile.
  expect(granted).toBeLessThan(11_000);
});

test('of a limit that is lowered and raised again, what was used before is still gone', async () => {
  const changed = { kind: RateLimitSubjectKind.API_KEY, id: testId(67) };
  const ask = async (tokensPerMinute: number, tokens: bigint, tokensSettled = 0n) => {
    const demands = [{ subject: changed, limits: { ...limits, tokensPerMinute }, tokens, tokensSettled }];
    return Number((await usage.client.quota({ replicaId: first, demands }, asService())).shares[0]!.tokens);
  };
  expect(await ask(10_000, 4_000n)).toBe(4_000);
  // Ten minutes of this limit, a tenth of one of the next.
  expect(await ask(100, 0n, 1_000n)).toBe(0);
  const left = await ask(10_000, 10_000n);
  // But for the average's rounding, and what has leaked out meanwhile.
  expect(left).toBeGreaterThanOrEqual(4_990);
  expect(left).toBeLessThan(5_900);
});

test('a clock of the database that goes back refuses nobody, and dead replicas do not live on', async () => {
  const other = { kind: RateLimitSubjectKind.API_KEY, id: testId(64) };
  const ask = { subject: other, limits, requests: 400, tokens: 40_000n, concurrentRequests: 46 };
  await usage.client.quota({ replicaId: first, demands: [ask] }, asService());
  // As if all of it had been written before the clock went back.
  await using database = await openUsage();
  await database.query({ text: "update rate_limit_buckets set leaked_at = leaked_at + interval '1 hour'" });
  await database.query({ text: "update rate_limit_replicas set seen_at = seen_at + interval '1 hour'" });
  const standing = await usage.client.getRateLimits(
    { limits, local: { remainingRequests: 1_000, remainingTokens: 100_000 } },
    asPerson({ tenantId, userId, apiKeyId: other.id }),
  );
  expect(standing.remainingConcurrentRequests).toBe(50);
  const { shares, replicas } = await usage.client.quota({ replicaId: second, demands: [ask] }, asService());
  expect(replicas).toBe(1);
  expect(shares[0]).toMatchObject({ requests: 400, tokens: 40_000n, concurrentRequests: 46 });
});

test('a report that its replica gave up while others had their turn counts nothing: the replica reports the same again', async () => {
  await using database = await openUsage();
  const { pool } = database;
  const reported = { kind: RateLimitSubjectKind.API_KEY, id: testId(68) };
  const ask = (timeoutMs: number) => {
    const demands = [{ subject: reported, limits, requests: 300, requestsSettled: 100n, concurrentRequests: 2 }];
    return usage.client.quota({ replicaId: first, demands }, { ...asService(), timeoutMs });
  };
  const blocked = async () => {
    const waiting = 'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
    return (await pool.query(waiting)).rows.length > 0;
  };
  await pool.query('begin');
  await takeAdvisoryLock(pool, 'reports of rate limits');
  const answer = ask(200);
  await waitFor(blocked, { description: 'the report to wait' });
  await expect(answer).rejects.toMatchObject({ reason: ErrorReason.DEADLINE_EXCEEDED });
  await pool.query('commit');
  const { shares } = await ask(5_000);
  expect(shares[0]).toMatchObject({ requests: 300, requestsFill: 0.4 });
});

test('only services may ask for grants', async () => {
  await expect(usage.client.quota({ replicaId: first }, key)).rejects.toMatchObject({
    reason: ErrorReason.INSUFFICIENT_ROLE,
  });
});

test('a replica that cannot report yet keeps no other from it, though after an outage all are dead to each other', async () => {
  await using database = await openUsage();
  const { pool } = database;
  const replicaIds = [first, second];
  for (const replicaId of replicaIds) await usage.client.quota({ replicaId }, asService());
  await pool.query("update rate_limit_replicas set seen_at = now() - interval '1 hour'");
  await pool.query('begin');
  const lock = (replicaId: string) =>
    pool.query('select from rate_limit_replicas where replica_id = $1 for update nowait', [replicaId]);
  await lock(first);
  const reporting = usage.client.quota({ replicaId: first }, asService());
  const waiting = 'select from pg_locks where not granted and pg_backend_pid() = any(pg_blocking_pids(pid))';
  await waitFor(async () => (await pool.query(waiting)).rows.length > 0, { description: 'the first to wait' });
  await lock(second);
  await pool.query('commit');
  expect(await reporting).toMatchObject({ replicas: 1 });
});
