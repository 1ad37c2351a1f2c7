import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { keyId } from '../../../../services/usage/fixtures/test-events.ts';
import { startUsageEdge, type UsageEdge } from '../../../fixtures/usage-edge.ts';

let edge: UsageEdge;
beforeAll(async () => {
  edge = await startUsageEdge();
});
afterAll(() => edge[Symbol.asyncDispose]());

type Endpoint = {
  path: string;
  /** Whether a range without one of its dates is refused, open at that end, or completed by a default. */
  dates?: 'required' | 'open' | 'default';
  /** The widest range by granularity, or without one. */
  daysMax?: Readonly<Record<string, number>>;
  /** Its other parameters. */
  parameters?: readonly ('scope' | 'filter' | 'page' | 'group_by')[];
};

const endpoints: readonly Endpoint[] = [
  { path: '/usage', parameters: ['scope'] },
  { path: '/usage/current', parameters: ['scope'] },
  { path: '/usage/history', dates: 'open', parameters: ['scope', 'filter', 'page'] },
  { path: '/usage/summary', dates: 'required', daysMax: { '': 366 }, parameters: ['scope', 'filter'] },
  {
    path: '/usage/report',
    dates: 'required',
    daysMax: { '': 90, hourly: 7, daily: 90, weekly: 365, monthly: 1_826 },
    parameters: ['scope', 'filter', 'group_by'],
  },
  { path: '/usage/tenant-breakdown', dates: 'default', daysMax: { '': 366 } },
  {
    path: `/usage/api-keys/${keyId}/analytics`,
    dates: 'default',
    daysMax: { '': 90, hourly: 7, daily: 90, weekly: 365 },
  },
  { path: '/usage/export', dates: 'required', daysMax: { '': 366 }, parameters: ['scope', 'filter'] },
];

type Refusal = { query: Record<string, string>; param: string; says: RegExp; code?: string };

const day = { start_date: '2026-07-01', end_date: '2026-07-02' };
const notDays = [
  'yesterday',
  '2026-7-1',
  '2026-02-30',
  '2026-13-01',
  '0000-00-00',
  '20260701',
  '2026-07-01T00:00:00Z',
  '',
];
const notZones = ['Mars/Base', '+05:30', 'Europe/Berlin; drop table events', '../UTC'];
const notCounts = ['ten', '1.5', 'NaN', '', '1e1', '1e99', '0x10'];

function* refusalsOf({ dates, daysMax = {}, parameters = [] }: Endpoint): Generator<Refusal> {
  if (dates !== undefined) yield* refusedDates(dates);
  yield* refusedWidths(daysMax);
  const granularities = Object.keys(daysMax).filter((name) => name !== '');
  if (granularities.length > 0) {
    for (const granularity of ['yearly', 'monthly', 'DAILY', 'toString']) {
      if (granularities.includes(granularity)) continue;
      yield { query: { ...day, granularity }, param: 'granularity', says: new RegExp(granularities.join(', ')) };
    }
  }
  if (parameters.includes('scope')) {
    yield { query: { ...day, scope: 'everybody' }, param: 'scope', says: /own, tenant/ };
  }
  if (parameters.includes('group_by')) {
    yield { query: { ...day, group_by: 'user' }, param: 'group_by', says: /none, model, api_key, endpoint/ };
  }
  if (parameters.includes('filter')) {
    for (const param of ['api_key_id', 'user_id']) {
      for (const id of ['mine', `${keyId}0`, '0']) yield { query: { ...day, [param]: id }, param, says: /UUID/ };
      yield { query: { ...day, [param]: '' }, param, says: /at least 1/ };
    }
    for (const param of ['model', 'endpoint']) {
      yield { query: { ...day, [param]: '' }, param, says: /at least 1/ };
      yield { query: { ...day, [param]: 'x'.repeat(256) }, param, says: /255/ };
    }
  }
  if (parameters.includes('page')) yield* refusedPages();
}

function* refusedDates(dates: NonNullable<Endpoint['dates']>): Generator<Refusal> {
  for (const param of ['start_date', 'end_date']) {
    for (const text of notDays) yield { query: { ...day, [param]: text }, param, says: /YYYY-MM-DD/ };
    if (dates === 'required') {
      const { [param]: _left, ...rest } = day as Record<string, string>;
      yield { query: rest, param, says: /required/ };
    }
  }
  const reversed = { start_date: '2026-07-02', end_date: '2026-07-01' };
  yield { query: reversed, param: 'end_date', says: /2026-07-02 is after end_date 2026-07-01/ };
  for (const timezone of notZones) {
    yield { query: { ...day, timezone }, param: 'timezone', says: /IANA/ };
    if (dates !== 'required') yield { query: { timezone }, param: 'timezone', says: /IANA/ };
  }
}

function* refusedWidths(daysMax: Readonly<Record<string, number>>): Generator<Refusal> {
  for (const [granularity, days] of Object.entries(daysMax)) {
    const last = Temporal.PlainDate.from('2026-07-14');
    const widest = { start_date: String(last.subtract({ days })), end_date: String(last) };
    const query = granularity === '' ? widest : { ...widest, granularity };
    yield { query, param: 'start_date', says: new RegExp(`at most ${days} days`), code: 'range_too_large' };
  }
}

function* refusedPages(): Generator<Refusal> {
  for (const text of notCounts) {
    for (const param of ['limit', 'offset', 'page'])
      yield { query: { [param]: text }, param, says: /integer|at least/ };
  }
  for (const param of ['limit', 'page']) yield { query: { [param]: '0' }, param, says: /at least 1\b/ };
  yield { query: { page: '20002', limit: '50' }, param: 'page', says: /at most 20001\b/ };
  yield { query: { page: '20002' }, param: 'page', says: /at most 20001\b/ };
  yield { query: { page: '2', offset: '50' }, param: 'page', says: /not both/ };
  for (const limit of ['-1', '-99999999999999999999']) yield { query: { limit }, param: 'limit', says: /at least 1\b/ };
  for (const limit of ['501', '99999999999999999999'])
    yield { query: { limit }, param: 'limit', says: /at most 500\b/ };
  for (const offset of ['-1', '-99999999999999999999'])
    yield { query: { offset }, param: 'offset', says: /at least 0\b/ };
  for (const offset of ['1000001', '99999999999999999999']) {
    yield { query: { offset }, param: 'offset', says: /at most 1000000\b/ };
  }
}

describe.each(endpoints.map((endpoint) => [endpoint.path, endpoint] as const))('%s', (path, endpoint) => {
  const refusals = [...refusalsOf(endpoint)].map(
    (refusal) => [String(new URLSearchParams(refusal.query)), refusal] as const,
  );

  test.each(refusals)('?%s is 400 and names the parameter', async (query, { param, says, code }) => {
    const { status, body } = await edge.get(`${path}?${query}`, 'owner');
    expect(status, body).toBe(400);
    const { error } = JSON.parse(body);
    expect(error).toMatchObject({
      param,
      message: expect.stringMatching(says),
      ...(code !== undefined && { code }),
    });
    expect(error.message).toContain(param === 'start_date' && code !== undefined ? 'days' : param);
  });

  test('as wide as allowed is answered', async () => {
    for (const [granularity, days] of Object.entries(endpoint.daysMax ?? { '': 2 })) {
      const last = Temporal.PlainDate.from('2026-07-14');
      const query = new URLSearchParams({
        start_date: String(last.subtract({ days: days - 1 })),
        end_date: String(last),
        ...(granularity !== '' && { granularity }),
      });
      expect((await edge.get(`${path}?${query}`, 'owner')).status, String(query)).toBe(200);
    }
  });
});

test('the description requires the parameters without which an endpoint refuses, and no others', () => {
  const required = Object.entries(edge.description.paths)
    .map(
      ([path, { get }]) => [path, get.parameters?.filter((one) => one.in === 'query' && one.required) ?? []] as const,
    )
    .filter(([, parameters]) => parameters.length > 0)
    .map(([path, parameters]) => [path, parameters.map(({ name }) => name)]);
  const refusing = endpoints.filter(({ dates }) => dates === 'required');
  expect(required).toEqual(refusing.map(({ path }) => [`/api/v1${path}`, ['start_date', 'end_date']]));
});

test('an unknown key and another organization’s are zeros or nothing, never a hint', async () => {
  const foreign = '0197f2a4-0000-7000-8000-000000009999';
  const { body: summary } = await edge.get(`/usage/summary?${new URLSearchParams({ ...day, api_key_id: foreign })}`);
  expect(JSON.parse(summary)).toMatchObject({ requests: 0, by_model: [], by_endpoint: [], by_api_key: [] });
  const { body: history } = await edge.get(`/usage/history?api_key_id=${foreign}`);
  expect(JSON.parse(history)).toMatchObject({ data: [], pagination: { total: 0 } });
  // Byte for byte except the id in the request.
  const analytics = async (id: string) => {
    const { status, body } = await edge.get(`/usage/api-keys/${id}/analytics?${new URLSearchParams(day)}`);
    return { status, body: body.replaceAll(id, 'ID') };
  };
  const zeros = await analytics(foreign);
  expect(zeros.status).toBe(200);
  expect(JSON.parse(zeros.body)).toMatchObject({ totals: { requests: 0 }, by_model: [], recent_activity: [] });
  for (const id of ['0197f2a4-0000-7000-8000-000000009998', 'no-uuid', '00000000-0000-0000-0000-000000000000']) {
    expect(await analytics(id)).toEqual(zeros);
  }
});
