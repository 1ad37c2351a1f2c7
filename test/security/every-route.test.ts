import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ClockAhead } from '../support/clock-ahead.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { operationsOfCalls } from '../support/inference.ts';

let gateway: TestGateway;
let session: string;
const clock = new ClockAhead();

beforeAll(async () => {
  gateway = await startTestGateway({ clock });
  session = await gateway.login();
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

const admin = (method: string, path: string, body?: unknown) =>
  gateway.call(method, `/api/v1/admin${path}`, session, body);
const newKey = async (fields: object = {}) => (await gateway.createKey(session, { ...fields })).key;

type Body = (model: string) => { headers?: Record<string, string>; body: string | FormData };
const json =
  (fields: object): Body =>
  (model) => ({ headers: { 'content-type': 'application/json' }, body: JSON.stringify({ model, ...fields }) });
const form: Body = (model) => {
  const body = new FormData();
  body.append('file', new Blob([new Uint8Array(64)]), 'a.wav');
  body.append('model', model);
  return { body };
};

/** Every operation of service.md, Inference endpoints: its path, a model that serves it, and a body. */
const routes: readonly (readonly [path: string, model: string, body: Body])[] = [
  ['/chat/completions', 'sandbox-chat', json({ messages: [{ role: 'user', content: 'Hi' }] })],
  ['/completions', 'sandbox-chat', json({ prompt: 'Hi' })],
  ['/embeddings', 'sandbox-embed', json({ input: 'Hi' })],
  ['/images/generations', 'sandbox-image', json({ prompt: 'A cat' })],
  ['/audio/speech', 'sandbox-speech', json({ input: 'Hi', voice: 'alloy' })],
  ['/audio/transcriptions', 'sandbox-transcribe', form],
  ['/audio/translations', 'sandbox-transcribe', form],
];

/** What each route answers under each prefix: a status and the error's code. */
async function answers(
  key: string,
  modelOf = (model: string) => model,
): Promise<Record<string, readonly [number, string]>> {
  const cases = routes.flatMap((route) => ['/v1', '/api/v1'].map((prefix) => [prefix, ...route] as const));
  const seen = cases.map(async ([prefix, path, model, body]) => {
    const { headers, ...rest } = body(modelOf(model));
    const response = await fetch(gateway.url + prefix + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, ...headers },
      ...rest,
    });
    const { error } = (await response.json()) as { error: { code: string } };
    return [prefix + path, [response.status, error.code]] as const;
  });
  return Object.fromEntries(await Promise.all(seen));
}
const everywhere = (status: number, code: string): Record<string, readonly [number, string]> =>
  Object.fromEntries(
    routes.flatMap(([path]) => ['/v1', '/api/v1'].map((prefix) => [prefix + path, [status, code] as const])),
  );

describe('every inference route, under both prefixes, refuses', () => {
  test('a missing key', async () => {
    expect(await answers('')).toEqual(everywhere(401, 'missing_api_key'));
  });

  test('an invalid key', async () => {
    expect(await answers('sk-proj-nothing')).toEqual(everywhere(401, 'invalid_api_key'));
  });

  test('a management key', async () => {
    expect(await answers(await newKey({ key_type: 'management' }))).toEqual(everywhere(403, 'endpoint_not_allowed'));
  });

  test('a key without its scope', async () => {
    expect(await answers(await newKey({ scopes: ['models:list'] }))).toEqual(everywhere(403, 'missing_scope'));
  });

  test('a disallowed address', async () => {
    expect(await answers(await newKey({ ip_allowlist: ['203.0.113.7'] }))).toEqual(everywhere(403, 'ip_not_allowed'));
  });

  test('a model that the key may not use', async () => {
    await admin('POST', '/models', { name: 'another-model', operations: ['chat_completions'] });
    const key = await newKey({ model_allowlist: ['another-model'] });
    expect(await answers(key)).toEqual(everywhere(403, 'model_not_allowed'));
  });

  test('an unknown model', async () => {
    expect(await answers(await newKey(), () => 'no-such-model')).toEqual(everywhere(404, 'model_not_found'));
  });

  test('a key with a cap of zero', async () => {
    expect(await answers(await newKey({ spend_cap_usd: 0 }))).toEqual(everywhere(429, 'spend_cap_exceeded'));
  });

  test('a retired model', async () => {
    await admin('POST', '/models', { name: 'retired', operations: operationsOfCalls });
    const made = await admin('POST', '/retirements', {
      model: 'retired',
      sunset_at: new Date(Date.now() + 60_000).toISOString(),
      retirement_note: 'Gone.',
    });
    expect(made.status, made.text).toBe(201);
    const key = await newKey();
    clock.aheadMs = 60_000;
    expect(await answers(key, () => 'retired')).toEqual(everywhere(410, 'model_sunset'));
  });

  test('the key and the session of a suspended organization', async () => {
    const key = await newKey();
    const { tenant_id } = (await gateway.call('GET', '/api/v1/profile', session)).json;
    await admin('POST', `/organizations/${tenant_id}/suspend`, { reason: 'unpaid' });
    try {
      expect(await answers(key)).toEqual(everywhere(403, 'tenant_suspended'));
      expect(await answers(session)).toEqual(everywhere(403, 'tenant_suspended'));
    } finally {
      await admin('POST', `/organizations/${tenant_id}/restore`);
    }
  });
});
