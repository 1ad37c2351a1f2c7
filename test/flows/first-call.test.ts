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

const create = async (fields: object, owner = session): Promise<CreatedKey> =>
  (await gateway.call('POST', '/api/v1/api-keys', owner, { name: 'tried at once', ...fields })).json;

/** The session of somebody who has accepted an invitation. */
async function joined(role: string): Promise<string> {
  const person = { email: `${role}@example.com`, password: 'Correct-horse-2' };
  await gateway.call('POST', '/api/v1/invitations', session, { email: person.email, role });
  const mail = await gateway.call('GET', `/api/v1/admin/mail?search=${person.email}`, session);
  await gateway.call('POST', '/api/v1/auth/accept-invite', '', {
    token: /[?&]token=([\w-]+)/.exec(mail.text)![1],
    password: person.password,
    first_name: 'First',
    last_name: 'Last',
  });
  return gateway.login(person);
}

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

/** What is not tried with a member's key: only admins and owners get an answer. */
const forAdmins = ['usage:read_breakdown', 'billing:read_invoices'];

test.each([
  ['an owner', true],
  ['a member', false],
])(
  'whatever its only scope is, the first call that is suggested for a key of %s is not refused',
  async (_, isAdmin) => {
    const owner = isAdmin ? session : await joined('member');
    for (const keyType of ['inference', 'management'] as const) {
      for (const scope of allowedScopes(keyType)) {
        const key = await create({ key_type: keyType, scopes: [scope] }, owner);
        const call = firstCall(key, models, gateway.url, today, isAdmin);
        if (untried.includes(scope) || (!isAdmin && forAdmins.includes(scope))) expect(call, scope).toBeNull();
        else expect(await make(call!, key.key), scope).toMatchObject({ status: 200 });
        await gateway.call('DELETE', `/api/v1/api-keys/${key.id}`, owner);
      }
    }
  },
);

test('a key with all scopes is tried by a chat, with a model that it may use', async () => {
  const chats = models.filter(({ operations }) => operations.includes('chat_completions'));
  const last = chats.at(-1)!.id;
  for (const [allowlist, model] of [
    [null, /./],
    [[last], last],
  ] as const) {
    const key = await create({ model_allowlist: allowlist });
    const made = await make(firstCall(key, models, gateway.url, today, true)!, key.key);
    expect(made).toMatchObject({ address: `${gateway.url}/v1/chat/completions`, status: 200 });
    expect(JSON.parse(made.body).model).toMatch(model);
  }
});
