import { expect, test } from 'vitest';
import { GroupBy } from '#gen/modelgateway/usage/v1/report_pb.ts';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { Role } from '#shared/rpc/caller.ts';
import { tenantId, testEvent, testId, userId } from '../fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, testNowMs } from '../fixtures/test-usage.ts';

/** Auth and Keys look up at most a thousand at a time. */
function lookUp<Found>(ids: readonly string[] | undefined, found: (id: string) => Found): Found[] {
  expect(ids!.length).toBeLessThanOrEqual(1_000);
  return ids!.map(found);
}

test('of more than a thousand keys and users, a report names each', async () => {
  await using usage = await startTestUsage({
    auth: {
      getUsers: async ({ userIds }) => ({ users: lookUp(userIds, (id) => ({ id, email: `${id}@a.test` })) }) as never,
    },
    keys: {
      describeKeys: async ({ keyIds }) =>
        ({ keys: lookUp(keyIds, (keyId) => ({ keyId, name: `key ${keyId}`, deleted: false })) }) as never,
    },
  });
  const events = Array.from({ length: 1_001 }, (_, index) =>
    testEvent(testNowMs, { userId: testId(5_000 + index), apiKeyId: testId(7_000 + index) }),
  );
  await usage.client.record({ events: events.slice(1) }, asService());
  await usage.client.record({ events: events.slice(0, 1) }, asService());
  const admin = asPerson({ tenantId, userId, role: Role.ADMIN });
  const range = { startDate: '2026-07-15', endDate: '2026-07-15' };
  const { users } = await usage.client.getTenantBreakdown({ range }, admin);
  expect(users.map(({ email }) => email).sort()).toEqual(events.map((event) => `${event.userId}@a.test`));
  const report = { scope: UsageScope.TENANT, range, groupBy: GroupBy.API_KEY };
  const { buckets } = await usage.client.getReport(report, admin);
  expect(buckets[0]!.groups.map(({ key }) => key?.name)).toEqual(events.map(({ apiKeyId }) => `key ${apiKeyId}`));
});

test('a key that cannot be named on one page of an export, since Keys is silent for a moment, is named on the next', async () => {
  let isSilent = true;
  await using usage = await startTestUsage({
    keys: {
      describeKeys: async ({ keyIds }) => {
        if (isSilent) throw new Error('Keys is restarting');
        return { keys: lookUp(keyIds, (keyId) => ({ keyId, name: `key ${keyId}`, deleted: false })) } as never;
      },
    },
  });
  const events = Array.from({ length: 250 }, () => testEvent(testNowMs, { apiKeyId: testId(7_000) }));
  await usage.client.record({ events }, asService());
  const admin = asPerson({ tenantId, userId, role: Role.ADMIN });
  const range = { startDate: '2026-07-15', endDate: '2026-07-15' };
  const named: string[][] = [];
  for await (const { keys } of usage.client.exportEvents({ range }, admin)) {
    named.push(Object.values(keys).map(({ name }) => name));
    isSilent = false;
  }
  // Once for the whole export: readers keep it.
  expect(named).toEqual([[], [`key ${testId(7_000)}`], []]);
});
