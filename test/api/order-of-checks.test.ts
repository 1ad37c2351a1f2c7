import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClockAhead } from '../support/clock-ahead.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';

/* decisions.md, Inference (order of gateway checks) and Models (order of checks on the model). */

let gateway: TestGateway;
let session: string;
const clock = new ClockAhead();

beforeAll(async () => {
  gateway = await startTestGateway({ clock });
  session = await gateway.login();
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

async function done(method: string, path: string, body?: unknown) {
  const answer = await gateway.call(method, `/api/v1${path}`, session, body);
  expect(answer.status, `${method} ${path}: ${answer.text}`).toBeLessThan(300);
  return answer.json;
}

/** The answer to a chat: 200, or the code of the refusal. */
async function told(credential: string, model: string): Promise<unknown> {
  const messages = [{ role: 'user', content: 'Hi' }];
  const { status, json } = await gateway.call('POST', '/v1/chat/completions', credential, { model, messages });
  return status === 200 ? status : json.error.code;
}

test('of everything wrong with a call, only the first in the order of checks is reported, from the surface to the organization’s limit', async () => {
  const operations = ['chat_completions'];
  await done('POST', '/admin/models', { name: 'private', operations, visibility: 'private' });
  await done('POST', '/admin/models', { name: 'not-serving', operations });
  await done('POST', '/admin/models', { name: 'retired', operations });
  const sunset_at = new Date(Date.now() + 60_000).toISOString();
  await done('POST', '/admin/retirements', { model: 'retired', sunset_at, retirement_note: 'Gone.' });
  clock.aheadMs = 60_000;

  const amiss = { ip_allowlist: ['203.0.113.7'], model_allowlist: ['sandbox-chat'], spend_cap_usd: 0 };
  const management = await gateway.createKey(session, { ...amiss, key_type: 'management', scopes: ['profile:read'] });
  const { id, key } = await gateway.createKey(session, { ...amiss, scopes: ['models:list'] });
  const change = (fields: object) => done('PATCH', `/api-keys/${id}`, fields);
  await done('PUT', `/admin/keys/${id}/rate-limits`, { requests_per_minute: 1 });
  await done('PUT', '/profile/cost-limit', { limit_usd: 0 });
  await done('PUT', '/billing/payg-spend-cap', { limit_usd: 0 });
  await expect.poll(() => told(session, 'sandbox-chat')).toBe('cost_limit_exceeded');
  const { tenant_id } = await done('GET', '/profile');
  await done('POST', `/admin/organizations/${tenant_id}/suspend`, { reason: 'unpaid' });

  expect(await told(management.key, 'private')).toBe('endpoint_not_allowed');
  expect(await told(key, 'private')).toBe('missing_scope');
  await change({ scopes: ['inference:chat'] });
  expect(await told(key, 'private')).toBe('ip_not_allowed');
  await change({ ip_allowlist: null });
  expect(await told(key, 'private')).toBe('tenant_suspended');
  await done('POST', `/admin/organizations/${tenant_id}/restore`);
  expect(await told(key, 'private')).toBe('model_not_found');
  expect(await told(key, 'retired')).toBe('model_sunset');
  expect(await told(key, 'not-serving')).toBe('model_not_allowed');
  await change({ model_allowlist: null });
  expect(await told(key, 'not-serving')).toBe('model_unavailable');
  // The minute's only request is stopped by the cap; the next one does not get that far.
  expect(await told(key, 'sandbox-chat')).toBe('spend_cap_exceeded');
  expect(await told(key, 'sandbox-chat')).toBe('rate_limit_exceeded');
  await done('PUT', `/admin/keys/${id}/rate-limits`, { requests_per_minute: 1_000 });
  await change({ spend_cap_usd: null });
  await expect.poll(() => told(key, 'sandbox-chat')).toBe('cost_limit_exceeded');
  await done('DELETE', '/profile/cost-limit');
  await expect.poll(() => told(key, 'sandbox-chat')).toBe('payg_cap_exceeded');
  await done('DELETE', '/billing/payg-spend-cap');
  await expect.poll(() => told(key, 'sandbox-chat')).toBe(200);
});
