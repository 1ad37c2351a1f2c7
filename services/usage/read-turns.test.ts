import pg from 'pg';
import { expect, test } from 'vitest';
import { GroupBy } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { Role } from '#shared/rpc/caller.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { keyId, tenantId, testEvent, testId, userId } from './fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, type TestUsage, testNowMs } from './fixtures/test-usage.ts';

test('one organization’s reads, however many and slow, leave connections for storing, grants and others’ reads', async () => {
  await using usage = await startTestUsage();
  const { client } = usage;
  const history = (of: string) =>
    client.listHistory({}, asPerson({ tenantId: of, userId })).then(
      () => null,
      ({ reason }) => reason,
    );
  // Its partition is known from then on.
  await client.record({ events: [testEvent(testNowMs)] }, asService());
  const [owner, watch] = [new pg.Client(usage.databaseUrl), new pg.Client(usage.databaseUrl)];
  await Promise.all([owner.connect(), watch.connect()]);
  try {
    await owner.query('begin');
    // Histories use it, and apart from them only what creates partitions.
    await owner.query('lock table usage.events_retention in access exclusive mode');
    let ended = 0;
    const reads = Array.from({ length: 60 }, async () => {
      const reason = await history(tenantId);
      ended += 1;
      return reason;
    });
    // What is too much for a queue is refused at once.
    await waitFor(() => ended === 8, { description: 'the refusals' });
    const read = history(testId(200));
    const atOnce = async () => {
      const { rows } = await watch.query(
        `select count(*)::int from pg_stat_activity
          where datname = current_database() and wait_event_type = 'Lock' and query like 'select kept_from from%'`,
      );
      return rows[0].count === 3;
    };
    await waitFor(atOnce, { description: 'two reads of the one, and that of the other' });
    await client.record({ events: [testEvent(testNowMs)] }, asService());
    await client.quota({ replicaId: testId(202) }, asService());
    expect(ended).toBe(8);
    expect(await atOnce()).toBe(true);
    await owner.query('rollback');
    expect(await read).toBeNull();
    const reasons = await Promise.all(reads);
    expect(reasons.filter((reason) => reason === ErrorReason.RATE_LIMITED)).toHaveLength(8);
    expect(reasons.filter((reason) => reason === null)).toHaveLength(52);
  } finally {
    await Promise.all([owner.end(), watch.end()]);
  }
});

test('exports that have begun, however many, are never broken off because too many wait for their next page', async () => {
  await using usage = await startTestUsage();
  await usage.client.record({ events: Array.from({ length: 120 }, () => testEvent(testNowMs)) }, asService());
  const admin = asPerson({ tenantId, userId, role: Role.ADMIN });
  const exports = Array.from({ length: 54 }, () =>
    usage.client.exportEvents({ range: { startDate: '2026-07-15', endDate: '2026-07-15' } }, admin),
  ).map((pages) => pages[Symbol.asyncIterator]());
  const first: number[] = [];
  for (const pages of exports) first.push((await pages.next()).value!.events.length);
  const rest = await Promise.all(
    exports.map(async (pages) => {
      let count = 0;
      for (let next = await pages.next(); !next.done; next = await pages.next()) count += next.value.events.length;
      return count;
    }),
  );
  expect(rest).toEqual(first.map((count) => 120 - count));
});

const range = { startDate: '2026-07-15', endDate: '2026-07-15' };
type Call = (client: TestUsage['client'], by: ReturnType<typeof asPerson>) => Promise<unknown>;
const named: readonly [what: string, asked: string, call: Call][] = [
  ['Auth', 'who used what', (client, by) => client.getTenantBreakdown({ range }, by)],
  ['Keys', 'the names in a summary', (client, by) => client.getSummary({ range }, by)],
  ['Keys', 'the names in a report', (client, by) => client.getReport({ range, groupBy: GroupBy.API_KEY }, by)],
  ['Keys', 'a key’s name', (client, by) => client.getKeyAnalytics({ keyId, range }, by)],
];

test.each(named)(
  'while %s is silent about %s in some organizations, reports of others are answered',
  async (...[, , call]) => {
    const silence = Promise.withResolvers<never>();
    let asked = 0;
    const silent = () => {
      asked += 1;
      return silence.promise;
    };
    await using usage = await startTestUsage({ auth: { getUsers: silent }, keys: { describeKeys: silent } });
    const { client } = usage;
    const busy = [testId(201), testId(201), testId(202)];
    await client.record({ events: busy.map((of) => testEvent(testNowMs, { tenantId: of })) }, asService());
    const answers = Promise.allSettled(
      busy.map((of) => call(client, asPerson({ tenantId: of, userId, role: Role.ADMIN }))),
    );
    await waitFor(() => asked === busy.length, { description: 'it to be asked' });
    await client.getCurrent({}, { ...asPerson({ tenantId, userId }), timeoutMs: 2_000 });
    silence.resolve({ users: [], keys: [] } as never);
    expect(await answers).toMatchObject(busy.map(() => ({ status: 'fulfilled' })));
  },
);
