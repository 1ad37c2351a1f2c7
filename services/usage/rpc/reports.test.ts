import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampDate, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Granularity, GroupBy, type Measures } from '#gen/modelgateway/usage/v1/report_pb.ts';
import type { DateRangeSchema } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import type { UsageEvent } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { Role } from '#shared/rpc/caller.ts';
import { asTableOwner, lockWaiters, onDatabase } from '../../../test/support/people.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { keyId, tenantId, testEvent, testId, userId } from '../fixtures/test-events.ts';
import { asPerson, asService, startTestUsage, type TestUsage, testNowMs } from '../fixtures/test-usage.ts';

const otherUser = testId(20);
const otherKey = testId(21);
const lookedUp: string[][] = [];

let usage: TestUsage;
beforeAll(async () => {
  usage = await startTestUsage({
    auth: {
      async getUsers({ userIds = [] }) {
        lookedUp.push([...userIds]);
        return { users: [{ id: userId, email: 'me@example.test' }] } as never;
      },
    },
  });
});
afterAll(() => usage[Symbol.asyncDispose]());

const member = asPerson({ tenantId, userId });
const admin = asPerson({ tenantId, userId, role: Role.ADMIN });
type Range = MessageInitShape<typeof DateRangeSchema>;
const july: Range = { startDate: '2026-07-01', endDate: '2026-07-31' };

/** The workload's truth: the correct sums for any selection of its events. */
function truth(events: readonly UsageEvent[]) {
  const sum = (read: (event: UsageEvent) => bigint) => events.reduce((total, event) => total + read(event), 0n);
  return {
    requests: BigInt(events.length),
    successfulRequests: BigInt(events.filter(({ success }) => success).length),
    failedRequests: BigInt(events.filter(({ success }) => !success).length),
    inputTokens: sum(({ usage }) => usage!.inputTokens),
    cachedInputTokens: sum(({ usage }) => usage!.cachedInputTokens),
    outputTokens: sum(({ usage }) => usage!.outputTokens),
    totalTokens: sum(({ usage }) => usage!.inputTokens + usage!.outputTokens),
    images: sum(({ usage }) => usage!.images),
    audioMs: sum(({ usage }) => usage!.audioMs),
    characters: sum(({ usage }) => usage!.characters),
    durationMs: sum(({ latencyMs }) => BigInt(latencyMs)),
    costNanoUsd: sum(({ usage }) => usage!.costNanoUsd),
  };
}
const plain = (measures: Measures | undefined) => {
  const { $typeName: _name, ...fields } = measures!;
  return fields;
};

/** A small generator, so that a failing workload can be reproduced. */
function random(seed: number) {
  return (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((seed / 2_147_483_648) * below);
  };
}

function workload(seed: number, count: number): UsageEvent[] {
  const pick = random(seed);
  return Array.from({ length: count }, () => {
    const atMs = Date.UTC(2026, 5, 28) + pick(36 * 24 * 3_600_000);
    const mine = pick(3) > 0;
    return testEvent(atMs, {
      userId: mine ? userId : otherUser,
      apiKeyId: pick(5) === 0 ? '' : mine ? keyId : otherKey,
      model: ['small-chat', 'large-chat', 'embedder'][pick(3)]!,
      endpoint: ['/v1/chat/completions', '/api/v1/chat/completions'][pick(2)]!,
      success: pick(10) > 0,
      errorCode: pick(2) === 0 ? '' : 'upstream_error',
      latencyMs: pick(5000),
      usage: {
        inputTokens: BigInt(pick(1000)),
        cachedInputTokens: BigInt(pick(2) * pick(100)),
        outputTokens: BigInt(pick(2) * pick(500)),
        images: BigInt(pick(2)),
        audioMs: BigInt(pick(3000)),
        characters: BigInt(pick(100)),
        costNanoUsd: BigInt(pick(1_000_000)),
      },
    });
  });
}

const inside = (event: UsageEvent, startMs: number, endMs: number) => {
  const ms = timestampDate(event.occurredAt!).getTime();
  return ms >= startMs && ms < endMs;
};

describe('on a random workload with duplicates and reorderings', () => {
  const events = workload(7, 3_000);
  const ofJuly = events.filter((event) => inside(event, Date.UTC(2026, 6, 1), Date.UTC(2026, 7, 1)));
  const mine = ofJuly.filter((event) => event.userId === userId);

  beforeAll(async () => {
    const pick = random(11);
    const sent = [...events, ...events.filter(() => pick(4) === 0)].sort(() => pick(3) - 1);
    const batches = Array.from({ length: Math.ceil(sent.length / 97) }, (_, at) => sent.slice(at * 97, at * 97 + 97));
    // Four shippers, each with one call at a time.
    const ship = async () => {
      for (let events = batches.pop(); events !== undefined; events = batches.pop()) {
        await usage.client.record({ events }, asService());
        // Days are summed half-way through: with events before, during and after.
        if (batches.length === 20) await usage.gatherDays();
      }
    };
    await Promise.all([ship(), ship(), ship(), ship()]);
  });

  test('the sums of every endpoint are the truth', async () => {
    const tenant = { scope: UsageScope.TENANT, range: july };
    const current = await usage.client.getCurrent({ scope: UsageScope.TENANT }, admin);
    const summary = await usage.client.getSummary(tenant, admin);
    const breakdown = await usage.client.getTenantBreakdown({ range: july }, admin);
    const report = await usage.client.getReport({ ...tenant, groupBy: GroupBy.MODEL }, admin);
    const history = await usage.client.listHistory({ ...tenant, limit: 1 }, admin);

    const expected = truth(ofJuly);
    expect(plain(current.measures)).toEqual(expected);
    expect(plain(summary.totals)).toEqual(expected);
    expect(plain(report.totals)).toEqual(expected);
    expect(history.pageInfo?.total).toBe(expected.requests);
    for (const split of [summary.byModel, summary.byEndpoint, summary.byApiKey, current.models, breakdown.users]) {
      const sum = split.reduce((total, { measures }) => total + measures!.costNanoUsd, 0n);
      expect(sum).toBe(expected.costNanoUsd);
      const costs = split.map(({ measures }) => measures!.costNanoUsd);
      expect(costs).toEqual(costs.toSorted((a, b) => Number(b - a)));
    }
    for (const { name, measures } of summary.byApiKey) {
      expect(plain(measures)).toEqual(truth(ofJuly.filter(({ apiKeyId }) => apiKeyId === name)));
    }
    expect(breakdown.users.map(({ userId: id, email }) => [id, email])).toContainEqual([userId, 'me@example.test']);
    expect(breakdown.users.map(({ userId: id, email }) => [id, email])).toContainEqual([otherUser, '']);
    expect(lookedUp.at(-1)?.toSorted()).toEqual([userId, otherUser].toSorted());
  });

  test('calls that succeeded and calls that failed can each be listed and counted', async () => {
    for (const success of [true, false]) {
      const expected = ofJuly.filter((event) => event.success === success);
      const list = await usage.client.listHistory(
        { scope: UsageScope.TENANT, range: july, success, limit: 500 },
        admin,
      );
      expect(list.pageInfo?.total).toBe(BigInt(expected.length));
      const newest = expected.map(({ id }) => id).sort();
      expect(list.events.map(({ id }) => id)).toEqual(newest.reverse().slice(0, 500));
    }
  });

  test('a member sees only their own', async () => {
    const summary = await usage.client.getSummary({ range: july }, member);
    expect(plain(summary.totals)).toEqual(truth(mine));
    const filtered = await usage.client.getSummary(
      { range: july, filter: { model: 'embedder', apiKeyId: keyId } },
      member,
    );
    expect(plain(filtered.totals)).toEqual(
      truth(mine.filter(({ model, apiKeyId }) => model === 'embedder' && apiKeyId === keyId)),
    );
    // Sessions are not a key, whatever they are stored under.
    const nobody = { apiKeyId: '00000000-0000-0000-0000-000000000000' };
    const none = await usage.client.getSummary({ range: july, filter: nobody }, member);
    expect(none.totals?.requests).toBe(0n);
  });

  test.each([
    [Granularity.HOURLY, 'Asia/Kathmandu', { startDate: '2026-07-03', endDate: '2026-07-09' }, 168],
    [Granularity.DAILY, 'Asia/Kathmandu', { startDate: '2026-07-03', endDate: '2026-07-20' }, 18],
    [Granularity.WEEKLY, 'America/St_Johns', july, 5],
    [Granularity.MONTHLY, 'Pacific/Chatham', { startDate: '2026-06-15', endDate: '2026-07-20' }, 2],
  ])(
    'a report of granularity %s in %s is dense, and every bucket and group is the truth',
    async (granularity, timezone, range, count) => {
      const report = await usage.client.getReport(
        { range: { ...range, timezone }, granularity, groupBy: GroupBy.API_KEY },
        member,
      );
      expect(report.timezone).toBe(granularity === Granularity.HOURLY ? 'UTC' : timezone);
      expect(report.buckets).toHaveLength(count);
      let endOfLast = report.range!.start!;
      for (const { range: bucket, measures, groups } of report.buckets) {
        expect(bucket?.start).toEqual(endOfLast);
        endOfLast = bucket!.end!;
        const [startMs, endMs] = [timestampDate(bucket!.start!).getTime(), timestampDate(bucket!.end!).getTime()];
        const expected = events.filter((event) => event.userId === userId && inside(event, startMs, endMs));
        expect(plain(measures)).toEqual(truth(expected));
        const keys = [...new Set(expected.map(({ apiKeyId }) => apiKeyId))].sort();
        expect(groups.map(({ name }) => name)).toEqual(keys);
        for (const group of groups) {
          expect(plain(group.measures)).toEqual(truth(expected.filter(({ apiKeyId }) => apiKeyId === group.name)));
        }
      }
      expect(endOfLast).toEqual(report.range!.end);
    },
  );

  test.each([
    ['UTC', 0],
    ['Asia/Kathmandu', -5.75],
    ['America/New_York', 4],
  ])('an export in %s has every event once, oldest first', async (timezone, hours) => {
    const range = { ...july, timezone };
    const exported: UsageEvent[] = [];
    for await (const page of usage.client.exportEvents({ range }, admin)) exported.push(...page.events);
    const [startMs, endMs] = [6, 7].map((month) => Date.UTC(2026, month, 1) + hours * 3_600_000) as [number, number];
    const expected = events.filter((event) => inside(event, startMs, endMs));
    expect(exported).toEqual(expected.sort((a, b) => (a.id < b.id ? -1 : 1)));
    let own = 0;
    for await (const page of usage.client.exportEvents({ scope: UsageScope.OWN, range }, admin)) {
      own += page.events.length;
    }
    expect(own).toBe(expected.filter((event) => event.userId === userId).length);
  });

  test('pages and exports hold exactly what any filter picks', async () => {
    const pick = random(5);
    const oneOf = <Value>(...values: Value[]): Value => values[pick(values.length)]!;
    const idsOf = (some: readonly UsageEvent[]) => some.map(({ id }) => id);
    for (let query = 0; query < 8; query += 1) {
      const filter = {
        model: oneOf('', 'small-chat', 'embedder'),
        endpoint: oneOf('', '/v1/chat/completions'),
        apiKeyId: oneOf('', otherKey),
        userId: oneOf('', userId, otherUser),
      };
      const success = oneOf(undefined, true, false);
      const first = 10 + pick(15);
      const last = first + pick(3);
      const request = {
        scope: UsageScope.TENANT,
        range: { startDate: `2026-07-${first}`, endDate: `2026-07-${last}` },
        filter,
      };
      const picked = events
        .filter((event) => inside(event, Date.UTC(2026, 6, first), Date.UTC(2026, 6, last + 1)))
        .filter((event) =>
          Object.entries(filter).every(([name, value]) => ['', event[name as 'model']].includes(value)),
        )
        .sort((a, b) => (a.id < b.id ? -1 : 1));
      const exported: string[] = [];
      for await (const page of usage.client.exportEvents(request, admin)) exported.push(...idsOf(page.events));
      expect(exported).toEqual(idsOf(picked));

      const listed = idsOf(picked.filter((event) => event.success === (success ?? event.success))).reverse();
      const [offset, limit] = [pick(listed.length), oneOf(1, 7, 100)];
      const history = await usage.client.listHistory({ ...request, success, offset, limit }, admin);
      expect(history.pageInfo?.total).toBe(BigInt(listed.length));
      expect(idsOf(history.events)).toEqual(listed.slice(offset, offset + limit));
    }
  });

  test('each grouping of a report is by what it names', async () => {
    const request = { range: july, granularity: Granularity.MONTHLY };
    for (const [groupBy, field] of [
      [GroupBy.MODEL, 'model'],
      [GroupBy.ENDPOINT, 'endpoint'],
      [GroupBy.API_KEY, 'apiKeyId'],
    ] as const) {
      const { buckets } = await usage.client.getReport({ ...request, groupBy }, member);
      const names = [...new Set(mine.map((event) => event[field]))].sort();
      expect(buckets[0]!.groups.map(({ name }) => name)).toEqual(names);
    }
  });

  test('a summary names nothing that was not used in its range, though it was in the same week', async () => {
    await usage.client.record({ events: [testEvent(Date.UTC(2026, 6, 6), { model: 'once' })] }, asService());
    await usage.gatherDays();
    const { byModel } = await usage.client.getSummary(
      { range: { startDate: '2026-07-07', endDate: '2026-07-31' } },
      member,
    );
    expect(byModel.map(({ name }) => name).sort()).toEqual(['embedder', 'large-chat', 'small-chat']);
  });

  test('the users of a model are listed once each', async () => {
    const since = { seconds: BigInt(Date.UTC(2026, 6, 1) / 1000) };
    const users: string[] = [];
    for await (const user of usage.client.listModelUsers({ model: 'embedder', since }, asService())) {
      users.push(user.userId);
    }
    expect(users.toSorted()).toEqual([userId, otherUser].toSorted());
    const later = { seconds: BigInt(Date.UTC(2026, 8, 1) / 1000) };
    for await (const user of usage.client.listModelUsers({ model: 'embedder', since: later }, asService())) {
      expect.unreachable(user.userId);
    }
  });
});

test('a price says what it charged each organization, with what was used, dearest first', async () => {
  const [priceId, otherPrice, otherTenant] = [testId(700), testId(701), testId(702)];
  const at = (minute: number) => Date.UTC(2026, 5, 20, 10, minute);
  const charged = { model: 'mispriced', priceVersionId: priceId };
  const events = [
    testEvent(at(0), { ...charged, usage: { inputTokens: 10n, outputTokens: 1n, costNanoUsd: 100n } }),
    testEvent(at(9), { ...charged, usage: { inputTokens: 20n, outputTokens: 2n, costNanoUsd: 200n } }),
    testEvent(at(5), { ...charged, tenantId: otherTenant, usage: { costNanoUsd: 1_000n } }),
    testEvent(at(5), { model: 'mispriced', priceVersionId: otherPrice }),
    // After the time that was asked about.
    testEvent(at(10), charged),
  ];
  await usage.client.record({ events }, asService());
  const time = (minute: number) => timestampFromMs(at(minute));
  const request = { model: 'mispriced', priceId, since: time(0), until: time(10) };
  const { organizations } = await usage.client.adminGetPriceCharges(
    request,
    asPerson({ tenantId, userId, operator: true }),
  );
  expect(organizations).toMatchObject([
    { tenantId: otherTenant, measures: { requests: 1n, costNanoUsd: 1_000n } },
    { tenantId, measures: { requests: 2n, inputTokens: 30n, outputTokens: 3n, costNanoUsd: 300n } },
  ]);
  await expect(usage.client.adminGetPriceCharges(request, admin)).rejects.toMatchObject({
    reason: ErrorReason.INSUFFICIENT_ROLE,
  });
});

test('a use counts among those since a moment of its quarter hour, also once an earlier one arrives late', async () => {
  const at = (minute: number) => Date.UTC(2026, 4, 20, 10, minute);
  for (const minute of [44, 1]) {
    await usage.client.record({ events: [testEvent(at(minute), { model: 'quarterly' })] }, asService());
  }
  const usersSince = async (ms: number) => {
    const since = { seconds: BigInt(ms / 1000) };
    return (await Array.fromAsync(usage.client.listModelUsers({ model: 'quarterly', since }, asService()))).length;
  };
  expect([await usersSince(at(40)), await usersSince(at(45))]).toEqual([1, 0]);
});

test('pages of a history follow its offset, which need not be a multiple of the limit', async () => {
  const [one, two, three] = [1, 2, 3].map((day) => testEvent(Date.UTC(2026, 3, day)));
  await usage.client.record({ events: [one!, two!, three!] }, asService());
  const range = { startDate: '2026-04-01', endDate: '2026-04-30' };
  const { events, pageInfo } = await usage.client.listHistory({ range, offset: 1, limit: 2 }, member);
  expect(events.map(({ id }) => id)).toEqual([two!.id, one!.id]);
  expect(pageInfo).toMatchObject({ total: 3n, hasPrev: true, hasNext: false });
});

test('an event is listed though its week began days before, and its organization has had none since', async () => {
  const organization = testId(32);
  const sunday = testEvent(Date.UTC(2026, 5, 14, 23, 59), { tenantId: organization });
  await usage.client.record({ events: [sunday] }, asService());
  await usage.gatherDays();
  const { events } = await usage.client.listHistory({}, asPerson({ tenantId: organization, userId }));
  expect(events.map(({ id }) => id)).toEqual([sunday.id]);
});

test('a page of a history and its total are of one moment: an event that arrives meanwhile pushes none off the last page', async () => {
  const organization = testId(31);
  const first = testEvent(testNowMs - 1_000, { tenantId: organization });
  await usage.client.record({ events: [first] }, asService());
  const fixture = { database: { url: usage.databaseUrl } };
  await onDatabase(fixture, async (client) => {
    await client.query('begin; lock table usage.events in access exclusive mode');
    const page = usage.client.listHistory({}, asPerson({ tenantId: organization, userId }));
    await waitFor(async () => (await lockWaiters(fixture)) === 1, {
      description: 'the events to be asked for',
    });
    const { id } = testEvent(testNowMs);
    await client.query({
      text: `insert into usage.events select (jsonb_populate_record(events, jsonb_build_object('id', $1::text))).*
        from usage.events where tenant_id = $2`,
      values: [id, organization],
    });
    await client.query('commit');
    const { events, pageInfo } = await page;
    expect([events.map((event) => event.id), pageInfo?.total]).toEqual([[first.id], 1n]);
  });
});

describe('roles', () => {
  const insufficient = { reason: ErrorReason.INSUFFICIENT_ROLE };

  test('a member is refused what is for admins', async () => {
    const scope = UsageScope.TENANT;
    await expect(usage.client.getSummary({ scope, range: july }, member)).rejects.toMatchObject(insufficient);
    await expect(usage.client.getReport({ scope, range: july }, member)).rejects.toMatchObject(insufficient);
    await expect(usage.client.listHistory({ scope }, member)).rejects.toMatchObject(insufficient);
    await expect(usage.client.getTenantBreakdown({}, member)).rejects.toMatchObject(insufficient);
    const pages = usage.client.exportEvents({ range: july }, member)[Symbol.asyncIterator]();
    await expect(pages.next()).rejects.toMatchObject(insufficient);
  });

  test('an API key cannot export', async () => {
    const key = asPerson({ tenantId, userId, role: Role.OWNER, apiKeyId: keyId });
    const pages = usage.client.exportEvents({ range: july }, key)[Symbol.asyncIterator]();
    await expect(pages.next()).rejects.toMatchObject({ reason: ErrorReason.ENDPOINT_NOT_ALLOWED });
  });

  test('people cannot look for a call in all organizations', async () => {
    await expect(usage.client.adminFindCalls({ requestId: 'req_a' }, admin)).rejects.toMatchObject(insufficient);
  });

  test('people cannot list the users of a model', async () => {
    const users = usage.client.listModelUsers({ model: 'm', since: {} }, admin)[Symbol.asyncIterator]();
    await expect(users.next()).rejects.toMatchObject(insufficient);
  });
});

describe('calls of any organization', () => {
  const operator = asPerson({ tenantId: testId(59), userId: testId(59), operator: true });
  const pick = random(5);
  const firstMs = Date.UTC(2026, 6, 2);
  const events = Array.from({ length: 500 }, (_, index) => {
    const own = pick(6);
    // A quarter of an hour has several of an organization, and several organizations.
    return testEvent(firstMs + pick(50) * 20_736_000 + pick(900_000), {
      tenantId: testId(60 + Math.floor(own / 2)),
      userId: testId(70 + own),
      apiKeyId: testId(80 + own),
      model: ['found-chat', 'found-embed'][index % 2]!,
      deploymentId: testId(90 + (index % 4)),
      success: pick(4) > 0,
      requestId: `req_found_${index % 499}`,
    });
  }).sort((a, b) => (a.id < b.id ? 1 : -1));
  const idsOf = (list: readonly UsageEvent[]) => list.map(({ id }) => id);
  beforeAll(async () => {
    await usage.client.record({ events }, asService());
  });

  test('are those that all filters pick, on whatever page', async () => {
    for (let round = 0; round < 60; round += 1) {
      const oneOf = <Value>(...values: Value[]): Value => values[pick(values.length)]!;
      const filter = {
        tenantId: oneOf('', '', testId(60), testId(62)),
        userId: oneOf('', '', testId(70)),
        apiKeyId: oneOf('', '', testId(80)),
        model: oneOf('found-chat', 'found-embed'),
        deploymentId: oneOf('', '', testId(90), testId(91)),
      };
      const success = filter.deploymentId === '' ? oneOf(undefined, true, false) : false;
      const [first, days] = [2 + pick(13), 1 + pick(7)];
      const range = {
        startDate: `2026-07-${first}`.replace(/-(.)$/, '-0$1'),
        endDate: String(Temporal.PlainDate.from({ year: 2026, month: 7, day: first }).add({ days: days - 1 })),
      };
      const picked = events.filter(
        (event) =>
          inside(event, Date.UTC(2026, 6, first), Date.UTC(2026, 6, first + days)) &&
          event.success === (success ?? event.success) &&
          Object.entries(filter).every(([name, value]) => ['', event[name as 'model']].includes(value)),
      );
      const [page, limit] = [1 + pick(3), oneOf(3, 20, 100)];
      const found = await usage.client.adminFindCalls({ ...filter, success, range, page: { page, limit } }, operator);
      expect(idsOf(found.events), JSON.stringify({ filter, success, range, page, limit })).toEqual(
        idsOf(picked.slice((page - 1) * limit, page * limit)),
      );
      expect(found.pageInfo?.total).toBe(BigInt(picked.length));
    }
  });

  test('are looked up by the id of one, or by a request id, among what else is asked for', async () => {
    const { id, tenantId: theirs, requestId } = events[7]!;
    const find = async (request: Parameters<typeof usage.client.adminFindCalls>[0]) =>
      idsOf((await usage.client.adminFindCalls(request, operator)).events);
    expect(await find({ eventId: id })).toEqual([id]);
    expect(await find({ requestId })).toContain(id);
    expect(await find({ requestId: 'req_found_0' })).toHaveLength(2);
    expect(await find({ eventId: id, tenantId: theirs, requestId })).toEqual([id]);
    expect(await find({ eventId: id, tenantId: testId(999) })).toEqual([]);
    expect(await find({ requestId, range: { endDate: '2026-07-01' } })).toEqual([]);
    expect(await find({ eventId: testId(999) })).toEqual([]);
  });

  test('are of the last seven days, or of as many others, unless they are of one organization', async () => {
    const lastDays = events.filter((event) => inside(event, Date.UTC(2026, 6, 9), Date.UTC(2026, 6, 16)));
    const ofModel = (more: Parameters<typeof usage.client.adminFindCalls>[0]) =>
      usage.client.adminFindCalls({ model: 'found-chat', ...more }, operator);
    const total = BigInt(lastDays.filter(({ model }) => model === 'found-chat').length);
    expect((await ofModel({})).pageInfo?.total).toBe(total);
    const range = { startDate: '2026-07-01', endDate: '2026-07-08' };
    const tooLarge = { reason: ErrorReason.RANGE_TOO_LARGE, details: { param: 'start_date' } };
    await expect(ofModel({ range })).rejects.toMatchObject(tooLarge);
    const ofDeployment = { tenantId: testId(60), deploymentId: testId(90) };
    await expect(ofModel({ range, ...ofDeployment, success: false })).rejects.toMatchObject(tooLarge);
    const refused = { reason: ErrorReason.INVALID_REQUEST, details: { param: 'deployment_id' } };
    await expect(ofModel(ofDeployment)).rejects.toMatchObject(refused);
    const ofOne = events.filter((event) => event.tenantId === testId(60) && event.model === 'found-chat');
    expect((await ofModel({ tenantId: testId(60) })).pageInfo?.total).toBe(BigInt(ofOne.length));
  });
});

describe('refused ranges name the parameter', () => {
  const refusals: [string, Range, Granularity, string, ErrorReason, RegExp][] = [
    ['no start', { endDate: '2026-07-01' }, Granularity.DAILY, 'start_date', ErrorReason.INVALID_REQUEST, /required/],
    ['no end', { startDate: '2026-07-01' }, Granularity.DAILY, 'end_date', ErrorReason.INVALID_REQUEST, /required/],
    [
      'no such day',
      { startDate: '2026-02-29', endDate: '2026-03-01' },
      Granularity.DAILY,
      'start_date',
      ErrorReason.INVALID_REQUEST,
      /YYYY-MM-DD/,
    ],
    [
      'reversed',
      { startDate: '2026-07-02', endDate: '2026-07-01' },
      Granularity.DAILY,
      'end_date',
      ErrorReason.INVALID_REQUEST,
      /after/,
    ],
    [
      'no such zone',
      { startDate: '2026-07-01', endDate: '2026-07-01', timezone: 'Mars/Base' },
      Granularity.HOURLY,
      'timezone',
      ErrorReason.INVALID_REQUEST,
      /IANA/,
    ],
    [
      'eight days hourly',
      { startDate: '2026-07-01', endDate: '2026-07-08' },
      Granularity.HOURLY,
      'start_date',
      ErrorReason.RANGE_TOO_LARGE,
      /at most 7 days/,
    ],
    [
      '91 days daily',
      { startDate: '2026-01-01', endDate: '2026-04-01' },
      Granularity.DAILY,
      'start_date',
      ErrorReason.RANGE_TOO_LARGE,
      /at most 90 days/,
    ],
    [
      '366 days weekly',
      { startDate: '2025-07-01', endDate: '2026-07-01' },
      Granularity.WEEKLY,
      'start_date',
      ErrorReason.RANGE_TOO_LARGE,
      /at most 365 days/,
    ],
  ];

  test.each(refusals)('%s', async (_name, range, granularity, param, reason, text) => {
    const error = await usage.client.getReport({ range, granularity }, member).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason, details: { param }, message: expect.stringMatching(text) });
  });

  test('a range as wide as the maximum is answered', async () => {
    const report = await usage.client.getReport(
      { range: { startDate: '2026-01-01', endDate: '2026-03-31' }, granularity: Granularity.DAILY },
      member,
    );
    expect(report.buckets).toHaveLength(90);
  });

  test('a summary over more than a year is refused', async () => {
    const range = { startDate: '2025-01-01', endDate: '2026-07-01' };
    await expect(usage.client.getSummary({ range }, member)).rejects.toMatchObject({
      reason: ErrorReason.RANGE_TOO_LARGE,
    });
  });
});

test('a report split into more rows than a process should hold at once is refused; one of as many as it may have is answered', async () => {
  const organization = testId(32);
  const database = { database: { url: usage.databaseUrl } };
  await usage.client.record({ events: [testEvent(testNowMs, { tenantId: organization })] }, asService());
  await asTableOwner(
    database,
    `insert into usage.rollups select (jsonb_populate_record(rollups, jsonb_build_object('api_key_id', $2 || lpad(nth::text, 12, '0')))).*
      from usage.rollups, generate_series(1, 50000) as nth where tenant_id = $1`,
    [organization, '00000000-0000-7000-8000-'],
  );
  const day = new Date(testNowMs).toISOString().slice(0, 10);
  const report = (groupBy: GroupBy) =>
    usage.client.getReport(
      { range: { startDate: day, endDate: day }, granularity: Granularity.HOURLY, groupBy },
      asPerson({ tenantId: organization, userId }),
    );
  await expect(report(GroupBy.API_KEY)).rejects.toMatchObject({
    reason: ErrorReason.RANGE_TOO_LARGE,
    details: { param: 'group_by' },
  });
  expect((await report(GroupBy.NONE)).totals?.requests).toBe(50_001n);
  await asTableOwner(database, 'delete from usage.rollups where tenant_id = $1 and api_key_id = $2', [
    organization,
    keyId,
  ]);
  const { buckets } = await report(GroupBy.API_KEY);
  expect(buckets.flatMap(({ groups }) => groups)).toHaveLength(50_000);
});

test('the current month is that of the clock', async () => {
  const { period } = await usage.client.getCurrent({}, member);
  expect(timestampDate(period!.start!).toISOString()).toBe('2026-07-01T00:00:00.000Z');
  expect(timestampDate(period!.end!).toISOString()).toBe('2026-08-01T00:00:00.000Z');
  expect(testNowMs).toBeGreaterThan(timestampDate(period!.start!).getTime());
});
