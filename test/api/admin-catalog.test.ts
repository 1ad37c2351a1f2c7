import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ModelSettingsSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { PublicName, WholeMessage } from '#shared/whole-message.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

let gateway: TestGateway;
let simulator: UpstreamSimulator;
let operator: string;
let key: { id: string; key: string };

beforeAll(async () => {
  simulator = await startUpstreamSimulator();
  gateway = await startTestGateway({ env: { UPSTREAM_TEST_SECRET: 'the-upstreams-own-key' } });
  operator = await gateway.login();
  key = await gateway.createKey(operator);
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await simulator?.[Symbol.asyncDispose]();
});

const admin = (method: string, path: string, body?: unknown) =>
  gateway.call(method, `/api/v1/admin${path}`, operator, body);
let made = 0;
const createModel = async (fields: Record<string, unknown> = {}): Promise<string> => {
  made += 1;
  const name = `acme/model-${made}:latest`;
  const answer = await admin('POST', '/models', { name, operations: ['chat_completions'], ...fields });
  expect(answer.status, answer.text).toBe(201);
  return name;
};
const addSandbox = async (model: string) => {
  const answer = await admin('POST', '/deployments', { model, dialect: 'sandbox', upstream_model: 'sandbox-chat' });
  expect(answer.status, answer.text).toBe(201);
  return answer.json;
};
const chat = (model: string) =>
  gateway.call('POST', '/v1/chat/completions', key.key, { model, messages: [{ role: 'user', content: 'Hi' }] });
const pathOf = (model: string) => `/models/${encodeURIComponent(model)}`;

describe('models', () => {
  test('a model that an operator creates serves its users as soon as it has a deployment', async () => {
    const name = await createModel({ display_name: 'Model one', owned_by: 'Acme', context_window: 4096 });
    const before = await admin('GET', pathOf(name));
    expect(before.json).toMatchObject({
      id: name,
      display_name: 'Model one',
      owned_by: 'Acme',
      operations: ['chat_completions'],
      context_window: 4096,
      max_output_tokens: null,
      visibility: 'public',
      is_serviceable: false,
      deprecated_at: null,
      deployments: [],
      prices: [],
      granted_tenant_ids: [],
    });
    expect((await chat(name)).status).toBe(503);
    await addSandbox(name);
    await waitFor(async () => (await chat(name)).status === 200, { description: 'the edge to know', timeoutMs: 1000 });
    expect((await gateway.call('GET', `/v1/models/${name}`, key.key)).json).toMatchObject({ id: name });
  });

  test('a name already in use is a conflict and changes nothing', async () => {
    const name = await createModel();
    const again = await admin('POST', '/models', { name, operations: ['embeddings'] });
    expect(again).toMatchObject({ status: 409, json: { error: { param: 'name', code: 'conflict' } } });
    expect((await admin('GET', pathOf(name))).json.operations).toEqual(['chat_completions']);
  });

  test.each([
    [{ name: 'a b', operations: ['embeddings'] }, 'name'],
    [{ name: 'ä', operations: ['embeddings'] }, 'name'],
    [{ name: 'x\r\nLink: <y>', operations: ['embeddings'] }, 'name'],
    [{ name: 'fine', operations: [] }, 'operations'],
    [{ name: 'fine' }, 'operations'],
    [{ name: 'fine', operations: ['teleport'] }, 'operations.0'],
    [{ name: 'fine', operations: ['embeddings'], visibility: 'secret' }, 'visibility'],
    [{ name: 'fine', operations: ['embeddings'], context_window: -1 }, 'context_window'],
    [{ name: 'fine', operations: ['embeddings'], id: uuidv7() }, 'id'],
  ])('a model with %j is refused, naming the field', async (body, param) => {
    const answer = await admin('POST', '/models', body);
    expect(answer.status, answer.text).toBe(400);
    expect(answer.json.error.param).toBe(param);
    expect((await admin('GET', '/models/fine')).status).toBe(404);
  });

  test.each(['deprecations', 'x/../y', './x', 'x/.', 'x/..'])(
    'a model named %s is refused: its path would be that of something else',
    async (name) => {
      const answer = await admin('POST', '/models', { name, operations: ['embeddings'] });
      expect(answer).toMatchObject({ status: 400, json: { error: { param: 'name', code: 'invalid_value' } } });
      expect((await admin('GET', `/models?search=${encodeURIComponent(name)}`)).json.data).toEqual([]);
    },
  );

  test('dots, and reserved words inside longer names, are allowed', async () => {
    for (const name of ['v1.5', 'x/..y', 'acme/deprecations', 'deprecations-2']) {
      expect((await admin('POST', '/models', { name, operations: ['embeddings'] })).status, name).toBe(201);
    }
  });

  test('a change leaves what it does not name as it was', async () => {
    const name = await createModel({ display_name: 'Before', context_window: 100 });
    const changed = await admin('PATCH', pathOf(name), { display_name: 'After', context_window: null });
    expect(changed.json).toMatchObject({ display_name: 'After', context_window: null, visibility: 'public' });
  });

  test('each setting can be changed alone, and is shown and recorded as it was given', async () => {
    const given: Record<PublicName<keyof WholeMessage<typeof ModelSettingsSchema>>, unknown> = {
      display_name: 'Another',
      owned_by: 'Acme',
      operations: ['completions'],
      context_window: 2,
      max_output_tokens: 3,
      visibility: 'private',
    };
    const changes = Object.entries(given).map(([field, value]) => ({ [field]: value }));
    const name = await createModel();
    for (const change of changes) expect((await admin('PATCH', pathOf(name), change)).json).toMatchObject(change);
    const recorded = async () => {
      const { json } = await admin('GET', `/audit-events?type=model_updated&target_id=${encodeURIComponent(name)}`);
      return json.data.map((event: { changes: { after: unknown } }) => event.changes.after);
    };
    await expect.poll(recorded, { interval: 100 }).toEqual(changes.reverse());
  });

  test('the list can be searched and paged, and is complete when nothing is asked for', async () => {
    const name = await createModel();
    const found = await admin('GET', `/models?search=${encodeURIComponent(name)}&limit=1`);
    expect(found.json).toMatchObject({ data: [{ id: name }], pagination: { total: 1, limit: 1 } });
    expect((await admin('GET', '/models')).json.pagination.total).toBeGreaterThan(5);
  });

  test('users can search, narrow and page the list of their models, which holds all of them when nothing is asked for', async () => {
    const fields = { display_name: 'Quince Gelée', owned_by: 'orchard' };
    const serving = await createModel({ ...fields, operations: ['completions', 'embeddings'] });
    await addSandbox(serving);
    const retiring = await createModel({ ...fields, operations: ['audio_speech'] });
    const retired = await admin('POST', '/retirements', { model: retiring, retirement_note: 'No longer offered.' });
    expect(retired.status, retired.text).toBe(201);
    const confined = await gateway.createKey(operator, { model_allowlist: [retiring] });
    const list = async (query: string, secret = operator) => {
      const { status, json, text } = await gateway.call('GET', `/api/v1/models?${query}`, secret);
      expect(status, text).toBe(200);
      return json;
    };
    const ids = async (query: string, secret?: string) =>
      (await list(query, secret)).data.map(({ id }: { id: string }) => id);

    expect(await ids('search=ORCHARD+quince')).toEqual([serving, retiring]);
    // As a file's name on a Mac spells it.
    expect(await ids(`search=${encodeURIComponent('GELÉE'.normalize('NFD'))}`)).toEqual([serving, retiring]);
    expect((await ids(`search=${encodeURIComponent(retiring)}`))[0]).toBe(retiring);
    expect(await ids('search=orchard&operation=embeddings')).toEqual([serving]);
    expect(await ids('search=orchard&operation=embeddings&operation=audio_speech')).toEqual([serving, retiring]);
    expect(await ids('search=orchard&is_retiring=true')).toEqual([retiring]);
    await expect.poll(() => ids('search=orchard&is_serviceable=true'), { interval: 50 }).toEqual([serving]);
    expect(await ids('search=orchard&is_serviceable=false')).toEqual([retiring]);
    expect(await list('search=orchard&limit=1&page=2')).toMatchObject({
      data: [{ id: retiring }],
      pagination: { page: 2, limit: 1, total: 2, total_pages: 2 },
    });
    expect(await list('limit=1', confined.key)).toMatchObject({ data: [{ id: retiring }], pagination: { total: 1 } });
    expect(await ids('')).toEqual(expect.arrayContaining([serving, retiring]));
    expect((await gateway.call('GET', '/v1/models?search=orchard&limit=1', operator)).json.data.length).toBeGreaterThan(
      2,
    );
    const refused = await gateway.call('GET', '/api/v1/models?operation=cooking', operator);
    expect(refused).toMatchObject({ status: 400, json: { error: { param: expect.stringContaining('operation') } } });
  });

  test('a deleted model is gone for its users, and its name may be used again', async () => {
    const name = await createModel();
    await addSandbox(name);
    expect((await admin('POST', '/prices', { model: name, per_request_usd: 1 })).status).toBe(201);
    expect((await admin('DELETE', pathOf(name))).status).toBe(204);
    expect((await admin('GET', pathOf(name))).status).toBe(404);
    expect((await gateway.call('GET', `/v1/models/${name}`, key.key)).status).toBe(404);
    const again = await admin('POST', '/models', { name, operations: ['embeddings'] });
    expect(again).toMatchObject({ status: 201, json: { deployments: [], prices: [] } });
  });
});

describe('deployments', () => {
  test('calls go to a deployment as it is added, changed and removed', async () => {
    const name = await createModel();
    const added = await admin('POST', '/deployments', {
      model: name,
      base_url: simulator.url,
      upstream_model: 'gpt-sim',
      weight: 3,
      concurrency_limit: 7,
      secret_reference: 'env:UPSTREAM_TEST_SECRET',
    });
    expect(added.status, added.text).toBe(201);
    expect(added.json).toMatchObject({
      model: name,
      base_url: simulator.url,
      upstream_model: 'gpt-sim',
      secret_reference: 'env:UPSTREAM_TEST_SECRET',
      weight: 3,
      priority: 0,
      concurrency_limit: 7,
      dialect: 'openai',
      enabled: true,
      status_reason: null,
    });
    const path = `/deployments/${added.json.id}`;
    const stopped = await admin('PATCH', path, { enabled: false });
    expect(stopped.json).toMatchObject({ status: 'Stopped', enabled: false, weight: 3, base_url: simulator.url });
    expect((await admin('GET', `/deployments?model=${encodeURIComponent(name)}`)).json.data).toHaveLength(1);
    expect((await admin('DELETE', path)).status).toBe(204);
    expect((await admin('DELETE', path)).status).toBe(404);
    expect((await admin('GET', `/deployments?model=${encodeURIComponent(name)}`)).json.data).toEqual([]);
  });

  test('a deployment shows each setting as it was given, and keeps it when another changes', async () => {
    const given = {
      upstream_model: 'sandbox-chat',
      secret_reference: 'env:UPSTREAM_TEST_SECRET',
      weight: 2,
      priority: 3,
      concurrency_limit: 4,
      connect_timeout_ms: 5,
      first_byte_timeout_ms: 6,
      idle_timeout_ms: 7,
      total_timeout_ms: 8,
      dialect: 'sandbox',
      sandbox: { latency_ms: 9, chunk_delay_ms: 10, error_per_million: 11, cut_after_chunks: 12 },
    };
    const added = await admin('POST', '/deployments', { model: await createModel(), ...given });
    expect(added.json).toMatchObject(given);
    const changed = await admin('PATCH', `/deployments/${added.json.id}`, { idle_timeout_ms: 13 });
    expect(changed.json).toMatchObject({ ...given, idle_timeout_ms: 13 });
  });

  test('a deployment shows the defaults that apply wherever it is shown', async () => {
    const model = await createModel();
    const added = await admin('POST', '/deployments', { model, base_url: simulator.url, concurrency_limit: 0 });
    const holds = {
      upstream_model: model,
      weight: 1,
      priority: 0,
      concurrency_limit: 1000,
      connect_timeout_ms: 5_000,
      first_byte_timeout_ms: 600_000,
      idle_timeout_ms: 300_000,
      total_timeout_ms: 600_000,
      enabled: true,
    };
    expect(added.json).toMatchObject(holds);
    expect((await admin('PATCH', `/deployments/${added.json.id}`, { priority: 2 })).json).toMatchObject({
      ...holds,
      priority: 2,
    });
    const listed = await admin('GET', `/deployments?model=${encodeURIComponent(model)}`);
    expect(listed.json.data).toMatchObject([{ ...holds, priority: 2 }]);
  });

  test.each([
    [{}, 'base_url'],
    [{ base_url: 'ftp://host/v1' }, 'base_url'],
    [{ base_url: 'https://user:secret@host/v1' }, 'base_url'],
    [{ base_url: 'https://host/v1?api-version=1' }, 'base_url'],
    [{ base_url: 'https://host/v1#models' }, 'base_url'],
    [{ base_url: 'not a url' }, 'base_url'],
    [{ base_url: 'https://host/v1', weight: 0 }, 'weight'],
    [{ base_url: 'https://host/v1', dialect: 'klingon' }, 'dialect'],
    [{ base_url: 'https://host/v1', secret_reference: 'env:SERVICE_SECRET' }, 'secret_reference'],
    [{ base_url: 'https://host/v1', secret_reference: 'file:/etc/passwd' }, 'secret_reference'],
    [{ base_url: 'https://host/v1', secret_reference: 'env:UPSTREAM_NOT_SET' }, 'secret_reference'],
    [{ base_url: 'https://host/v1', api_key: 'sk-secret' }, 'api_key'],
    [{ dialect: 'sandbox' }, 'upstream_model'],
    [{ dialect: 'sandbox', upstream_model: 'gpt-4o' }, 'upstream_model'],
  ])('a deployment with %j is refused, naming the field', async (fields, param) => {
    const model = await createModel();
    const answer = await admin('POST', '/deployments', { model, ...fields });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.json.error.param).toBe(param);
    expect((await admin('GET', pathOf(model))).json.deployments).toEqual([]);
  });

  test('a deployment is not changed to a model that the sandbox lacks', async () => {
    const model = await createModel();
    const path = `/deployments/${(await addSandbox(model)).id}`;
    const { status, json } = await admin('PATCH', path, { upstream_model: 'gpt-4o' });
    expect([status, json.error?.param]).toEqual([400, 'upstream_model']);
    expect(json.error.message).toContain('sandbox-chat');
    const away = await admin('POST', '/deployments', { model, base_url: simulator.url });
    const turned = await admin('PATCH', `/deployments/${away.json.id}`, { dialect: 'sandbox' });
    expect([turned.status, turned.json.error?.param]).toEqual([400, 'upstream_model']);
    expect((await chat(model)).status).toBe(200);
  });

  test('a sandbox truncates bodies where its deployment says so, and the deployment shows it', async () => {
    const model = await createModel();
    const sandbox = { latency_ms: 1, chunk_delay_ms: 0, error_per_million: 0, cut_after_chunks: 3 };
    const made = await admin('POST', '/deployments', {
      model,
      dialect: 'sandbox',
      upstream_model: 'sandbox-chat',
      sandbox,
    });
    expect(made.json.sandbox).toEqual(sandbox);
    expect((await addSandbox(await createModel())).sandbox).toBeNull();
    const stream = () =>
      gateway.call('POST', '/v1/chat/completions', key.key, {
        model,
        stream: true,
        messages: [
          { role: 'user', content: 'Say a long sentence, please, of many words, so that there is much to cut.' },
        ],
      });
    await waitFor(async () => (await stream()).status === 200, { description: 'the edge to know' });
    const frames = (await stream()).text.trimEnd().split('\n\n');
    expect(frames).toHaveLength(4);
    expect(frames[3]).toContain('"code":"upstream_error"');
  });

  test('the same address and name a second time is a conflict', async () => {
    const model = await createModel();
    const first = await admin('POST', '/deployments', { model, base_url: 'https://host/v1' });
    expect(first.status).toBe(201);
    expect((await admin('POST', '/deployments', { model, base_url: 'https://host/v1' })).status).toBe(409);
    const other = await admin('POST', '/deployments', { model, base_url: 'https://other/v1' });
    expect((await admin('PATCH', `/deployments/${other.json.id}`, { base_url: 'https://host/v1' })).status).toBe(409);
  });
});

describe('prices', () => {
  test('a version is kept to the last digit, never changed by the next one, and callers see both', async () => {
    const model = await createModel();
    const first = await admin('POST', '/prices', { model, input_per_million_tokens_usd: 0.000000001 });
    expect(first.status, first.text).toBe(201);
    expect(first.text).toContain('"input_per_million_tokens_usd":0.000000001');
    const later = '2100-01-01T00:00:00.000Z';
    const second = await admin('POST', '/prices', { model, input_per_million_tokens_usd: 2, effective_from: later });
    expect(second.json.effective_from).toBe(later);
    const { prices } = (await admin('GET', pathOf(model))).json;
    expect(prices.map(({ id }: { id: string }) => id)).toEqual([first.json.id, second.json.id]);
    const shown = await gateway.call('GET', `/api/v1/models/${model}`, key.key);
    expect(shown.text).toContain('"input_per_million_tokens_usd":0.000000001');
    expect(shown.json.next_prices).toMatchObject({ effective_from: later, input_per_million_tokens_usd: 2 });
    await admin('POST', '/prices', { model, per_request_usd: 1, effective_from: '2101-01-01T00:00:00.000Z' });
    const { data } = (await gateway.call('GET', `/api/v1/models?search=${model}`, key.key)).json;
    expect(data[0].next_prices.effective_from).toBe(later);
    const same = await admin('POST', '/prices', { model, input_per_million_tokens_usd: 3, effective_from: later });
    expect(same.status).toBe(409);
  });

  test('a price that does not apply yet can be withdrawn, and another set for its moment; one that applies cannot', async () => {
    const model = await createModel();
    const later = '2100-01-01T00:00:00.000Z';
    const first = await admin('POST', '/prices', { model, per_request_usd: 1 });
    const wrong = await admin('POST', '/prices', { model, per_request_usd: 200, effective_from: later });
    const next = async () => (await gateway.call('GET', `/api/v1/models/${model}`, key.key)).json.next_prices;
    expect(await next()).toMatchObject({ per_request_usd: 200 });
    // Repeating it changes nothing.
    for (const _time of [1, 2]) expect((await admin('DELETE', `/prices/${wrong.json.id}`)).status).toBe(204);
    expect(await next()).toBeNull();
    const right = await admin('POST', '/prices', { model, per_request_usd: 2, effective_from: later });
    expect(right.status, right.text).toBe(201);
    expect(await next()).toMatchObject({ per_request_usd: 2 });
    const { prices } = (await admin('GET', pathOf(model))).json;
    expect(prices.map(({ id }: { id: string }) => id)).toEqual([first.json.id, right.json.id]);

    expect((await admin('DELETE', `/prices/${first.json.id}`)).status).toBe(409);
    expect((await admin('DELETE', `/prices/${uuidv7()}`)).status).toBe(404);
    expect((await admin('DELETE', '/prices/none')).status).toBe(404);
  });

  test('each rate is kept as it was given, and without one of their own cached tokens cost what others do', async () => {
    const rates = {
      input_per_million_tokens_usd: 1,
      output_per_million_tokens_usd: 2,
      per_image_usd: 3,
      per_audio_second_usd: 4,
      per_million_characters_usd: 5,
      per_request_usd: 6,
    };
    for (const [given, cached] of [
      [{}, 1],
      [{ cached_input_per_million_tokens_usd: null }, 1],
      [{ cached_input_per_million_tokens_usd: 0 }, 0],
    ] as const) {
      const set = await admin('POST', '/prices', { model: await createModel(), ...rates, ...given });
      expect(set.json).toMatchObject({ ...rates, cached_input_per_million_tokens_usd: cached });
    }
  });

  test.each([
    [{ input_per_million_tokens_usd: -1 }, 'input_per_million_tokens_usd'],
    [{ input_per_million_tokens_usd: 0.0000000001 }, 'input_per_million_tokens_usd'],
    [{ per_image_usd: 1, effective_from: '2020-01-01T00:00:00Z' }, 'effective_from'],
    [{ per_image_usd: 1, effective_from: 'tomorrow' }, 'effective_from'],
    [{}, 'input_per_million_tokens_usd'],
    [{ cached_input_per_million_tokens_usd: null }, 'input_per_million_tokens_usd'],
  ])('a price with %j is refused, naming the field', async (fields, param) => {
    const model = await createModel();
    const answer = await admin('POST', '/prices', { model, ...fields });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.json.error.param).toBe(param);
    expect((await admin('GET', pathOf(model))).json.prices).toEqual([]);
  });
});

describe('grants', () => {
  test('a private model exists for the organizations that were granted it, and for no others', async () => {
    const model = await createModel({ visibility: 'private' });
    await addSandbox(model);
    const unknown = await gateway.call('GET', '/v1/models/acme/unknown-0:latest', key.key);
    const hidden = await gateway.call('GET', `/v1/models/${model}`, key.key);
    expect(hidden.status).toBe(404);
    expect(hidden.text.replaceAll(model, 'acme/unknown-0:latest')).toBe(unknown.text);
    const { tenant_id } = (await gateway.call('GET', '/api/v1/profile', operator)).json;
    const granted = await admin('POST', '/grants', { model, tenant_id });
    expect(granted).toMatchObject({ status: 201, json: { model, tenant_id } });
    const listed = await admin('GET', `/grants?model=${encodeURIComponent(model)}`);
    expect(listed.json.data).toEqual([granted.json]);
    expect((await gateway.call('GET', `/v1/models/${model}`, key.key)).status).toBe(200);
    await waitFor(async () => (await chat(model)).status === 200, { description: 'the edge to know', timeoutMs: 1000 });
    const path = `/grants?model=${encodeURIComponent(model)}&tenant_id=${tenant_id}`;
    expect((await admin('DELETE', path)).status).toBe(204);
    expect((await admin('DELETE', path)).status).toBe(204);
    expect((await gateway.call('GET', `/v1/models/${model}`, key.key)).text).toBe(hidden.text);
  });

  test('an organization may be named in capitals, and is answered and audited as it is listed', async () => {
    const model = await createModel({ visibility: 'private' });
    const { tenant_id } = (await gateway.call('GET', '/api/v1/profile', operator)).json;
    const capitals = tenant_id.toUpperCase();
    const granted = await admin('POST', '/grants', { model, tenant_id: capitals });
    expect(granted).toMatchObject({ status: 201, json: { model, tenant_id } });
    await admin('DELETE', `/grants?model=${encodeURIComponent(model)}&tenant_id=${capitals}`);
    expect((await admin('GET', pathOf(model))).json.granted_tenant_ids).toEqual([]);
    const recorded = async () => {
      const { json } = await admin('GET', `/audit-events?target_id=${encodeURIComponent(model)}`);
      return json.data;
    };
    await expect
      .poll(recorded, { interval: 100 })
      .toMatchObject([
        { type: 'model_grant_revoked', changes: { before: { tenant_id } } },
        { type: 'model_granted', changes: { after: { tenant_id } } },
        { type: 'model_created' },
      ]);
  });

  test('an organization that does not exist is refused', async () => {
    const model = await createModel({ visibility: 'private' });
    expect((await admin('POST', '/grants', { model, tenant_id: 'acme' })).json.error.param).toBe('tenant_id');
    const answer = await admin('POST', '/grants', { model, tenant_id: uuidv7() });
    expect(answer).toMatchObject({ status: 404, json: { error: { param: 'tenant_id' } } });
  });
});

test.each(['/models', '/deployments', '/prices', '/grants', '/retirements', '/reminders'])(
  'GET %s is for operators in a session alone',
  async (path) => {
    expect((await gateway.call('GET', `/api/v1/admin${path}`)).status).toBe(401);
    const answer = await gateway.call('GET', `/api/v1/admin${path}`, key.key);
    expect(answer).toMatchObject({ status: 403, json: { error: { type: 'authentication_error' } } });
    expect((await admin('GET', path)).status).toBe(200);
  },
);

describe('an Idempotency-Key', () => {
  const post = (path: string, idempotencyKey: string, body: object) =>
    gateway.call('POST', `/api/v1/admin${path}`, operator, body, { 'idempotency-key': idempotencyKey });
  /** What is requested, and the same request with one difference. */
  const posts: Readonly<Record<string, (model: string) => [path: string, body: object, other: object]>> = {
    'a deployment': (model) => [
      '/deployments',
      { model, dialect: 'sandbox', upstream_model: 'sandbox-chat' },
      { model, dialect: 'sandbox', upstream_model: 'sandbox-chat', weight: 2 },
    ],
    'a price': (model) => ['/prices', { model, per_request_usd: 0.1 }, { model, per_request_usd: 0.2 }],
    'a retirement': (model) => [
      '/retirements',
      { model, retirement_note: 'Not needed.' },
      { model, retirement_note: 'Replaced.' },
    ],
  };

  test.each(Object.entries(posts))('creates %s once, however often it is sent', async (_what, describeIt) => {
    const model = await createModel();
    const [path, body, other] = describeIt(model);
    const answers = await Promise.all([1, 2, 3].map(() => post(path, `once-${model}`, body)));
    for (const { status, text, json } of answers) {
      expect(status, text).toBe(201);
      expect(json).toEqual(answers[0]!.json);
    }
    const { json } = await post(path, `once-${model}`, other);
    expect(json.error).toMatchObject({ code: 'idempotency_key_reused', type: 'invalid_request_error' });
    const record = (await admin('GET', pathOf(model))).json;
    expect(record.deployments.length + record.prices.length + (record.deprecated_at === null ? 0 : 1)).toBe(1);
  });

  test('creates a model and a grant once', async () => {
    const name = 'acme/once-only';
    const body = { name, operations: ['chat_completions'], visibility: 'private' };
    const first = await post('/models', 'one-model', body);
    expect(first.status, first.text).toBe(201);
    expect(await post('/models', 'one-model', body)).toMatchObject({ status: 201, json: first.json });
    const { tenant_id } = (await gateway.call('GET', '/api/v1/profile', operator)).json;
    const grant = await post('/grants', 'one-grant', { model: name, tenant_id });
    await admin('DELETE', `/grants?model=${encodeURIComponent(name)}&tenant_id=${tenant_id}`);
    const again = await post('/grants', 'one-grant', { model: name, tenant_id });
    expect([again.status, again.json]).toEqual([201, grant.json]);
    expect((await post('/grants', 'one-grant', { model: 'sandbox-chat', tenant_id })).status).toBe(400);
    expect((await admin('GET', pathOf(name))).json).toEqual(first.json);
    expect((await admin('DELETE', pathOf(name))).status).toBe(204);
    expect(await post('/models', 'one-model', body)).toMatchObject({ status: 201, json: first.json });
  });
});
