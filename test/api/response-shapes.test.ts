import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { waitFor } from '../support/wait-for.ts';

/*
 * The fields of responses with their types and order (service.md, Resources; decisions.md; openai-contract.md sections 4 and 6): clients
 * are generated from these names.
 */

let gateway: TestGateway;
let session: string;
/** The key whose calls are inspected. */
let keyId: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  session = await gateway.login();
  const key = await gateway.createKey(session, { spend_cap_usd: 5, model_allowlist: ['sandbox-chat'] });
  keyId = key.id;
  const { tenant_id } = await json('GET', '/profile');
  const organization = `/admin/organizations/${tenant_id}`;
  const expires_at = new Date(Date.now() + 86_400_000).toISOString();
  await json('POST', `${organization}/credits`, { amount_usd: 0.0001, source: 'promotion', expires_at });
  await json('POST', `${organization}/credits`, { amount_usd: 1 });
  const period = { period_start: '2020-01-01', period_end: '2100-01-01' };
  await json('POST', `${organization}/commitments`, { amount_usd: 0.0001, ...period });
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const submitted = await gateway.call('POST', '/v1/chat/completions', key.key, { ...chat, background: true });
  expect(submitted.status, submitted.text).toBe(202);
  await waitFor(async () => (await json('GET', '/billing/documents/transactions?type=usage')).data.length > 0, {
    description: 'the charge of the job',
  });
  await waitFor(async () => (await json('GET', `/api-keys/${keyId}`)).last_used_at !== null, {
    description: 'the use of the key',
  });
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

async function json(method: string, path: string, body?: unknown) {
  const answer = await gateway.call(method, `/api/v1${path}`, session, body);
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer.json;
}

/** A description of a value; for a list, of its first entry. */
function shapeOf(value: unknown): unknown {
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? [] : [shapeOf(value[0])];
  if (typeof value === 'object')
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shapeOf(one)]));
  if (typeof value !== 'string') return typeof value;
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)) return 'uuid';
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(value) ? 'time' : 'string';
}

const user = {
  id: 'uuid',
  email: 'string',
  first_name: 'string',
  last_name: 'string',
  tenant_id: 'uuid',
  is_active: 'boolean',
  created_at: 'time',
  email_verified: 'boolean',
  onboarding_completed: 'boolean',
};
const budget = { spent_today_usd: 'number', resets_at: 'time' };
const constraints = { model_allowlist: ['string'], ip_allowlist: 'null', spend_cap_usd: 'number', budget };
const keyItem = {
  id: 'uuid',
  name: 'string',
  key_type: 'string',
  key_preview: 'string',
  scopes: ['string'],
  created_at: 'time',
  rotated_at: 'null',
  expires_at: 'null',
  last_used_at: 'time',
  usage_count: 'number',
  is_active: 'boolean',
  ...constraints,
  revoked_at: 'null',
};
const pagination = {
  page: 'number',
  limit: 'number',
  total: 'number',
  total_pages: 'number',
  has_next: 'boolean',
  has_prev: 'boolean',
};
const measures = {
  requests: 'number',
  successful_requests: 'number',
  failed_requests: 'number',
  input_tokens: 'number',
  cached_input_tokens: 'number',
  output_tokens: 'number',
  total_tokens: 'number',
  images: 'number',
  audio_seconds: 'number',
  characters: 'number',
  duration_seconds: 'number',
  cost_usd: 'number',
};
const range = { start: 'time', end: 'time' };
const volume = {
  requests: 'number',
  successful_requests: 'number',
  failed_requests: 'number',
  input_tokens: 'number',
  cached_input_tokens: 'number',
  output_tokens: 'number',
  total_tokens: 'number',
};
const job = {
  id: 'string',
  object: 'string',
  endpoint: 'string',
  model: 'string',
  status: 'string',
  created_at: 'time',
  started_at: 'time',
  completed_at: 'time',
  failed_at: 'null',
  cancelled_at: 'null',
  expires_at: 'time',
  error: 'null',
  usage: {
    input_tokens: 'number',
    cached_input_tokens: 'number',
    output_tokens: 'number',
    total_tokens: 'number',
    images: 'number',
    audio_seconds: 'number',
    characters: 'number',
    cost_usd: 'number',
  },
  metadata: {},
};
const limits = { requests_per_minute: 'number', tokens_per_minute: 'number', concurrent_requests: 'number' };
const lot = {
  id: 'uuid',
  source: 'string',
  granted_usd: 'number',
  remaining_usd: 'number',
  expires_at: 'null',
  created_at: 'time',
};
const invoice = {
  id: 'uuid',
  number: 'null',
  period_start: 'time',
  period_end: 'time',
  issued_at: 'null',
  due_date: 'null',
  paid_at: 'null',
  status: 'string',
  payment_status: 'string',
  subtotal_usd: 'number',
  credits_usd: 'number',
  total_usd: 'number',
  amount_due_usd: 'number',
};
const budgetOf = {
  limit_usd: 'null',
  period: 'string',
  spent_usd: 'number',
  remaining_usd: 'null',
  resets_at: 'time',
};
const model = {
  id: 'string',
  object: 'string',
  created: 'number',
  owned_by: 'string',
  shutdown_date: 'null',
  deprecated_at: 'null',
  sunset_at: 'null',
  replacement_model_name: 'null',
  is_serviceable: 'boolean',
  retirement_note: 'null',
};
const days = 'start_date=2026-01-01&end_date=2026-01-02';

const shapes: readonly (readonly [path: string, shape: unknown])[] = [
  [
    '/profile',
    {
      ...user,
      role: 'string',
      phone: 'null',
      operator: 'boolean',
      organization: { id: 'uuid', name: 'string', status: 'string' },
    },
  ],
  ['/api-keys', { data: [keyItem], pagination, quota: { used: 'number', limit: 'number' } }],
  ['/api-keys/KEY', keyItem],
  [
    '/models',
    {
      object: 'string',
      data: [
        {
          ...model,
          display_name: 'string',
          operations: ['string'],
          context_window: 'number',
          max_output_tokens: 'number',
          visibility: 'string',
          prices: {
            input_per_million_tokens_usd: 'number',
            cached_input_per_million_tokens_usd: 'number',
            output_per_million_tokens_usd: 'number',
            per_image_usd: 'number',
            per_audio_second_usd: 'number',
            per_million_characters_usd: 'number',
            per_request_usd: 'number',
          },
          next_prices: 'null',
          deployments: [{ id: 'uuid', status: 'string' }],
        },
      ],
    },
  ],
  ['/jobs', { object: 'string', data: [job], first_id: 'string', last_id: 'string', has_more: 'boolean', pagination }],
  [
    '/jobs/stats',
    {
      total: 'number',
      by_status: {
        queued: 'number',
        in_progress: 'number',
        completed: 'number',
        failed: 'number',
        cancelled: 'number',
      },
      oldest_queued_at: 'null',
    },
  ],
  [
    '/usage/current',
    { period_start: 'time', period_end: 'time', ...measures, models: [{ model: 'string', ...measures }] },
  ],
  ['/usage/summary?DAYS', { range, ...measures, by_model: [], by_endpoint: [], by_api_key: [] }],
  [
    '/usage/report?DAYS&group_by=model',
    {
      range,
      granularity: 'string',
      timezone: 'string',
      totals: measures,
      buckets: [{ ...range, ...measures, groups: [] }],
    },
  ],
  [
    '/usage/tenant-breakdown',
    { range, users: [{ user_id: 'uuid', email: 'string', requests: 'number', tokens: 'number', cost_usd: 'number' }] },
  ],
  [
    '/usage/api-keys/KEY/analytics?model_name=sandbox-chat',
    {
      key_id: 'uuid',
      key_name: 'string',
      key_deleted: 'boolean',
      key_status: 'string',
      key_preview: 'string',
      key_user_id: 'uuid',
      granularity: 'string',
      range,
      timezone: 'string',
      totals: volume,
      previous_totals: volume,
      series: [{ bucket_start: 'time', ...volume }],
      by_model: [{ model: 'string', ...volume }],
      performance: {
        available: 'boolean',
        p50_latency_ms: 'number',
        p95_latency_ms: 'number',
        cache_hits: 'number',
        cache_misses: 'number',
        cached_tokens: 'number',
        tokens_per_second: 'number',
      },
      recent_activity: [
        {
          id: 'uuid',
          occurred_at: 'time',
          model: 'string',
          endpoint: 'string',
          operation: 'string',
          status: 'string',
          input_tokens: 'number',
          output_tokens: 'number',
          total_tokens: 'number',
          latency_ms: 'number',
        },
      ],
    },
  ],
  [
    '/admin/organizations',
    {
      data: [
        {
          id: 'uuid',
          name: 'string',
          status: 'string',
          created_at: 'time',
          suspended_at: 'null',
          suspension_reason: 'null',
          account: {
            plan: { code: 'string', name: 'string' },
            spent_usd: 'number',
            credit_usd: 'number',
            left_usd: 'null',
            funds: 'string',
            receivable_usd: 'number',
            overdue_usd: 'number',
          },
        },
      ],
      pagination,
    },
  ],
  ['/billing/wallet', { balance_usd: 'number', currency: 'string', lots: [lot] }],
  [
    '/billing/commitment',
    {
      id: 'uuid',
      amount_usd: 'number',
      period_start: 'time',
      period_end: 'time',
      consumed_usd: 'number',
      remaining_usd: 'number',
    },
  ],
  [
    '/plan/current',
    {
      code: 'string',
      name: 'string',
      payg_enabled: 'boolean',
      rate_limits: limits,
      included: { monthly_credit_usd: 'number', features: [] },
      payment_terms_days: 'number',
      funds_exhausted: 'boolean',
    },
  ],
  ['/billing/documents/invoices', { data: [invoice], pagination }],
  [
    '/billing/documents/invoices/INVOICE',
    {
      ...invoice,
      line_items: [
        {
          description: 'string',
          model: 'string',
          quantity: 'number',
          unit: 'string',
          unit_price_usd: 'number',
          amount_usd: 'number',
          usage_month: 'string',
        },
      ],
    },
  ],
  [
    '/billing/documents/transactions?type=usage',
    {
      data: [
        {
          id: 'uuid',
          occurred_at: 'time',
          type: 'string',
          amount_usd: 'number',
          balance_after_usd: 'number',
          invoice_id: 'uuid',
          description: 'string',
          usage_event_id: 'uuid',
          reverses_id: 'null',
        },
      ],
      pagination,
    },
  ],
  ['/profile/cost-limit', budgetOf],
  ['/billing/payg-spend-cap', budgetOf],
  [
    '/rate-limits',
    { limits, remaining: limits, reset_seconds: { requests_per_minute: 'number', tokens_per_minute: 'number' } },
  ],
];

test.each(shapes)('GET /api/v1%s has its fields', async (path, shape) => {
  const invoices = await json('GET', '/billing/documents/invoices');
  const address = path.replace('KEY', keyId).replace('INVOICE', invoices.data[0].id).replace('DAYS', days);
  expect(JSON.stringify(shapeOf(await json('GET', address)), null, 1)).toBe(JSON.stringify(shape, null, 1));
});

test('a login has the fields of its result', async () => {
  const { status, json: result } = await gateway.call('POST', '/api/v1/auth/login', '', {
    email: gateway.env.bootstrapEmail,
    password: gateway.env.bootstrapPassword,
  });
  expect(status).toBe(200);
  const shape = { access_token: 'string', refresh_token: 'string', token_type: 'string', expires_in: 'number', user };
  expect(JSON.stringify(shapeOf(result), null, 1)).toBe(JSON.stringify(shape, null, 1));
  expect(result).toMatchObject({ token_type: 'bearer', expires_in: 1_800 });
});

test('a new key has the fields of rule 1, in the only answer with its secret, and its constraints', async () => {
  const made = await json('POST', '/api-keys', { name: 'new', spend_cap_usd: 1, model_allowlist: ['sandbox-chat'] });
  const { id, name, key_type, scopes, created_at, expires_at } = keyItem;
  const shape = { id, name, key_type, key: 'string', scopes, created_at, expires_at, ...constraints };
  expect(JSON.stringify(shapeOf(made), null, 1)).toBe(JSON.stringify(shape, null, 1));
});
