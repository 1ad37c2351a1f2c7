import { expect, test } from 'vitest';
import { operationsByPath, scopeOf } from '#shared/operations.ts';
import type { DeclaredRoute } from '../../edge/guards/access.ts';
import { declaredRoutes } from '../support/routes.ts';

/** Under both prefixes. */
const inference = (...paths: string[]): string[] =>
  paths.flatMap((path) => {
    const [method, address] = path.split(' ');
    return [`${method} /v1${address}`, `${method} /api/v1${address}`];
  });
const management = (...paths: string[]): string[] => paths.map((path) => path.replace(' ', ' /api/v1'));

/**
 * The tables of service.md (Inference endpoints, Management endpoints, Key analytics) with what decisions.md and openai-contract.md add:
 * the realtime path and its client secrets, and the list of deprecations.
 */
const publicToKeys: Readonly<Record<string, readonly string[]>> = {
  'inference:chat': inference('POST /chat/completions'),
  'inference:completions': inference('POST /completions'),
  'inference:embeddings': inference('POST /embeddings'),
  'inference:images': inference('POST /images/generations'),
  'inference:audio': inference(
    'POST /audio/transcriptions',
    'POST /audio/translations',
    'POST /audio/speech',
    'GET /realtime',
    'POST /realtime/client_secrets',
  ),
  'models:list': inference('GET /models', 'GET /models/deprecations'),
  'models:retrieve': inference('GET /models/*'),
  'jobs:stats_own': management('GET /jobs/stats'),
  'jobs:read_own': management('GET /jobs', 'GET /jobs/:job_id'),
  'jobs:cancel_own': management('POST /jobs/:job_id/cancel'),
  'usage:read_current': management('GET /usage', 'GET /usage/current'),
  'usage:read_history': management('GET /usage/history'),
  'usage:read_summary': management('GET /usage/summary'),
  'usage:read_report': management('GET /usage/report', 'GET /usage/api-keys/:key_id/analytics'),
  'usage:read_breakdown': management('GET /usage/tenant-breakdown (admin)'),
  'billing:read_current': management(
    'GET /billing/wallet (admin)',
    'GET /billing/commitment (admin)',
    'GET /plan/current',
  ),
  'billing:read_invoices': management(
    'GET /billing/documents/invoices (admin)',
    'GET /billing/documents/invoices/:invoice_id (admin)',
    'GET /billing/documents/invoices/:invoice_id/transactions (admin)',
    'GET /billing/documents/transactions (admin)',
  ),
  'profile:read': management('GET /profile', 'GET /auth/profile'),
  'rate_limits:read': management('GET /rate-limits', 'GET /profile/rate-limits'),
  'budgets:read_own': management('GET /profile/cost-limit', 'GET /billing/payg-spend-cap'),
  'budgets:update_own': management(
    'PUT /profile/cost-limit',
    'DELETE /profile/cost-limit',
    'PUT /billing/payg-spend-cap (admin)',
    'DELETE /billing/payg-spend-cap (admin)',
  ),
};

/** What needs no credential at all. */
const open = [
  'GET /openapi.json',
  'GET /healthz',
  'GET /readyz',
  'GET /metrics',
  'GET /retirements/*',
  'GET /.well-known/jwks.json',
  'POST /api/v1/auth/accept-invite',
  'POST /api/v1/auth/invitation',
  'POST /api/v1/auth/login',
  'POST /api/v1/auth/logout',
  'POST /api/v1/auth/password/forgot',
  'POST /api/v1/auth/password/reset',
  'POST /api/v1/auth/refresh',
  'POST /api/v1/auth/register',
  // It is signed.
  'POST /api/v1/webhooks/payments',
];

const line = ({ method, url, access }: DeclaredRoute): string => {
  const role = 'role' in access && access.role !== undefined ? ` (${access.role})` : '';
  return `${method} ${url}${role}`;
};

test('the routes are the access matrix of service.md', async () => {
  const routes = await declaredRoutes();
  const matrix: Record<string, string[]> = {};
  for (const route of routes) {
    const { access } = route;
    const group = access.surface === 'api' ? access.scope : access.surface;
    matrix[group] = [...(matrix[group] ?? []), line(route)];
  }
  // The table itself, for readers of the test's output.
  process.stdout.write(
    `${Object.entries(matrix)
      .map(([group, lines]) => `${group.padEnd(22)} ${lines.join('\n'.padEnd(24))}`)
      .join('\n')}\n`,
  );

  for (const [scope, expected] of Object.entries(publicToKeys)) {
    expect([...(matrix[scope] ?? [])].sort(), scope).toEqual([...expected].sort());
  }
  const { public: open_, session, operator, ...scoped } = matrix;
  expect(Object.keys(scoped).sort()).toEqual(Object.keys(publicToKeys).sort());
  expect([...(open_ ?? [])].sort()).toEqual([...open].sort());
  // Everything for operators is below one path, and nothing else is.
  for (const text of operator ?? []) expect(text).toMatch(/ \/api\/v1\/admin\//);
  const others = [...(session ?? []), ...(open_ ?? []), ...Object.values(scoped).flat()];
  for (const text of others) expect(text).not.toContain('/admin/');
  // Routes that service.md names as closed to every key.
  for (const closed of [
    'POST /api/v1/jobs',
    'DELETE /api/v1/jobs/:job_id',
    'POST /api/v1/billing/coupons/redeem',
    ...['GET', 'POST'].map((method) => `${method} /api/v1/api-keys`),
    ...['PATCH', 'DELETE'].map((method) => `${method} /api/v1/api-keys/:key_id`),
  ]) {
    expect(session).toContain(closed);
  }
});

test('every operation is called under both prefixes, with its scope', async () => {
  const routes = (await declaredRoutes()).map(({ method, url, access }) => [method, url, access]);
  for (const [path, operation] of operationsByPath('json', 'form')) {
    const access = { surface: 'api', scope: scopeOf(operation) };
    for (const prefix of ['/v1', '/api/v1']) expect(routes).toContainEqual(['POST', prefix + path, access]);
  }
});
