import { afterAll, beforeAll, expect, test } from 'vitest';
import { allowedScopes } from '#shared/scopes.ts';
import type { CreatedKey, Model } from '../../edge/portal/src/api/types.ts';
import { firstCall } from '../../edge/portal/src/pages/keys/first-call.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';

let gateway: TestGateway;
let session: string;
let models: Model[];
beforeAll(async () => {
  gateway = await startTestGateway();
  session = await gateway.login();
  models = (await gateway.call('GET', '/api/v1/models', session)).json.data;
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const create = async (fields: object): Promise<CreatedKey> =>
  (await gateway.call('POST', '/api/v1/api-keys', session, { name: 'tried at once', ...fields })).json;

/** Makes the call as curl would, with the secret. */
async function make(call: string, secret: string): Promise<{ address: string; status: number; body: string }> {
  const address = /^curl '?([^\s']+)/.exec(call)![1]!;
  const sent = /-d '(.+)'/.exec(call)?.[1] ?? null;
  const answer = await fetch(address, {
    method: sent === null ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: sent,
  });
  return { address, status: answer.status, body: sent ?? '' };
}

const today = new Date().toISOString().slice(0, 10);
/** What these allow needs an id, or changes something. */
const untried = [
  'models:retrieve',
  'jobs:cancel_own',
  'budgets:update_own',
  'billing:read_cycles',
  'billing:read_summary',
];

test('whatever its only scope is, the first call that is suggested for a key is not refused', async () => {
  for (const keyType of ['inference', 'management'] as const) {
    for (const scope of allowedScopes(keyType)) {
      const key = await create({ key_type: keyType, scopes: [scope] });
      const call = firstCall(key, models, gateway.url, today);
      if (untried.includes(scope)) expect(call, scope).toBeNull();
      else expect(await make(call!, key.key), scope).toMatchObject({ status: 200 });
      await gateway.call('DELETE', `/api/v1/api-keys/${key.id}`, session);
    }
  }
});

test('a key with all scopes is tried by a chat, with a model that it may use', async () => {
  const chats = models.filter(({ operations }) => operations.includes('chat_completions'));
  const last = chats.at(-1)!.id;
  for (const [allowlist, model] of [
    [null, /./],
    [[last], last],
  ] as const) {
    const key = await create({ model_allowlist: allowlist });
    const made = await make(firstCall(key, models, gateway.url, today)!, key.key);
    expect(made).toMatchObject({ address: `${gateway.url}/v1/chat/completions`, status: 200 });
    expect(JSON.parse(made.body).model).toMatch(model);
  }
});
