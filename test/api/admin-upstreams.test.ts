import type { MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ImportedModelSchema, ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { bootstrap } from '../../services/cmd/bootstrap.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { rowsOf } from '../support/postgres.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';

let gateway: TestGateway;
let simulator: UpstreamSimulator;
let operator: string;

beforeAll(async () => {
  simulator = await startUpstreamSimulator();
  const env = { UPSTREAM_API_KEY: 'the key of the start', UPSTREAM_FIRST: 'the first', UPSTREAM_SECOND: 'the second' };
  gateway = await startTestGateway({ env });
  operator = await gateway.login();
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  await simulator?.[Symbol.asyncDispose]();
});

const admin = (method: string, path: string, body?: unknown) =>
  gateway.call(method, `/api/v1/admin${path}`, operator, body);
const importOf = (model: MessageInitShape<typeof ImportedModelSchema>) =>
  gateway.gateway.switchboard
    .client('bootstrap', ModelsService)
    .importCatalog({ models: [model] }, { contextValues: callerContext(serviceCaller('bootstrap')) });
const pathOf = (model: string) => `/models/${encodeURIComponent(model)}`;

describe('registering an upstream', () => {
  const register = (fields: object = {}) => admin('POST', '/upstreams', { base_url: simulator.url, ...fields });

  test('adds its models once, however many register it at the same time', async () => {
    const answers = await Promise.all([1, 2, 3, 4].map(() => register()));
    for (const { status, text } of answers) expect(status, text).toBe(200);
    const created = answers.map(({ json }) => json.deployments_created).sort();
    expect(created).toEqual([0, 0, 0, 5]);
    for (const { id } of answers[0]!.json.models) {
      expect((await admin('GET', pathOf(id))).json.deployments, id).toHaveLength(1);
    }
  });

  test('adds a model once that its server lists twice', async () => {
    await using upstream = await startUpstreamSimulator({ models: [{ id: 'own/twice' }, { id: 'own/twice' }] });
    expect((await register({ base_url: upstream.url })).json).toMatchObject({ deployments_created: 1 });
  });

  test('adds as many models as its server lists, and records each of their names', async () => {
    const names = Array.from({ length: 2_000 }, (_, place) => `many/${'m'.repeat(200)}-${place}`);
    await using upstream = await startUpstreamSimulator({ models: names });
    const added = await register({ base_url: upstream.url });
    expect(added.status, added.text.slice(0, 200)).toBe(200);
    expect(added.json).toMatchObject({ deployments_created: names.length });
    const recorded = async () => {
      const { json } = await admin('GET', '/audit-events?type=upstream_registered&limit=100');
      const events: { target: { id: string }; changes: { after: { models: string[] } } }[] = json.data;
      return events.flatMap(({ target, changes }) => (target.id === upstream.url ? changes.after.models : []));
    };
    await expect.poll(recorded).toHaveLength(names.length);
    expect((await register({ base_url: upstream.url })).json).toMatchObject({ deployments_created: 0 });
  });

  test('takes a base URL for the same with and without a slash at its end', async () => {
    await using upstream = await startUpstreamSimulator({ models: ['own/slashed'] });
    expect((await register({ base_url: `${upstream.url}/` })).json).toMatchObject({ deployments_created: 1 });
    expect((await register({ base_url: upstream.url })).json).toMatchObject({ deployments_created: 0 });
    const twice = await admin('POST', '/deployments', { model: 'own/slashed', base_url: `${upstream.url}/` });
    expect(twice.status).toBe(409);
    const imported = { name: 'own/slashed', settings: {}, deployments: [{ baseUrl: `${upstream.url}/`, priority: 1 }] };
    expect(await importOf(imported)).toMatchObject({ deploymentsCreated: 0, deploymentsUpdated: 1 });
  });

  test('a deployment whose base URL was kept with a slash by an earlier version can be changed beside one without, and one with a query stops no import', async () => {
    await using upstream = await startUpstreamSimulator({ models: ['own/kept'] });
    await register({ base_url: upstream.url });
    const [kept] = (await admin('GET', pathOf('own/kept'))).json.deployments;
    const other = await admin('POST', '/deployments', { model: 'own/kept', base_url: 'https://gpu.example/v1' });
    const keepAt = (baseUrl: string) =>
      rowsOf(
        gateway.env.databaseUrl!,
        `update models.deployments set base_url = $1, settings = jsonb_set(settings::jsonb, '{baseUrl}', to_jsonb($1::text))
          where id = $2`,
        [baseUrl, other.json.id],
      );
    await keepAt(`${upstream.url}/`);
    for (const { id } of [kept, other.json]) {
      const changed = await admin('PATCH', `/deployments/${id}`, { enabled: false });
      expect(changed.status, changed.text).toBe(200);
    }
    await keepAt('https://gpu.example/v1?version=1');
    await admin('PATCH', `/deployments/${kept.id}`, { enabled: true });
    const imported = { name: 'own/kept', settings: {}, deployments: [{ baseUrl: 'https://gpu.example/v2' }] };
    expect(await importOf(imported)).toMatchObject({ deploymentsCreated: 1, deploymentsUpdated: 0 });
  });

  test('adds models that are named by paths of files under what names can be in a URL, and is held up by no name', async () => {
    const paths = ['./models/llama.gguf', '../phi.gguf', 'plain/one'];
    const unfit = ['deprecations', '..', 'x'.repeat(256), 'two\nlines', 'nul\0', 'half\ud800'];
    await using upstream = await startUpstreamSimulator({ models: [...unfit, ...paths] });
    const first = await register({ base_url: upstream.url });
    expect(first.status, first.text).toBe(200);
    const names = first.json.models.map(({ id }: { id: string }) => id).sort();
    expect(names).toEqual(['models/llama.gguf', 'phi.gguf', 'plain/one']);
    expect((await register({ base_url: upstream.url })).json.deployments_created).toBe(0);
    const messages = [{ role: 'user' as const, content: 'Hi' }];
    await gateway.openai(operator).chat.completions.create({ model: 'models/llama.gguf', messages });
    expect(upstream.requests[0]!.model).toBe('./models/llama.gguf');
  });

  test('says why when a server has no model with a name that can be', async () => {
    await using upstream = await startUpstreamSimulator({ models: ['deprecations'] });
    const { status, json } = await register({ base_url: upstream.url });
    expect([status, json.error.param]).toEqual([400, 'base_url']);
    expect(json.error.message).toContain('`deprecations`');
  });

  test('keeps the operations that an operator corrected, unless it names others, which counts as a change', async () => {
    await admin('PATCH', pathOf('sim-chat'), { operations: ['completions'] });
    await register();
    const before = await start();
    expect((await admin('GET', pathOf('sim-chat'))).json.operations).toEqual(['completions']);
    await register({ operations: ['chat_completions', 'completions'] });
    expect((await admin('GET', pathOf('sim-chat'))).json.operations).toEqual(['chat_completions', 'completions']);
    expect((await start()).catalogVersion).toBeGreaterThan(before.catalogVersion);
  });

  test('reports its kind and its models’ context windows, without overriding what an operator has set', async () => {
    await using upstream = await startUpstreamSimulator({
      models: [
        { id: 'own/vllm', owned_by: 'vllm', max_model_len: 4_096 },
        { id: 'own/router', context_length: 131_072 },
        { id: 'own/unsure', context_length: -1, context_window: 'long' },
      ],
    });
    await admin('POST', '/upstreams', { base_url: upstream.url });
    const found = async (model: string) => {
      const { context_window, deployments } = (await admin('GET', pathOf(model))).json;
      return [context_window, deployments[0].dialect];
    };
    expect(await found('own/vllm')).toEqual([4_096, 'vllm']);
    expect(await found('own/router')).toEqual([131_072, 'openai']);
    expect(await found('own/unsure')).toEqual([null, 'openai']);

    const { deployments } = (await admin('GET', pathOf('own/vllm'))).json;
    await admin('PATCH', `/deployments/${deployments[0].id}`, { dialect: 'openai' });
    await admin('PATCH', pathOf('own/vllm'), { context_window: 2_048 });
    await admin('POST', '/upstreams', { base_url: upstream.url });
    expect(await found('own/vllm')).toEqual([2_048, 'openai']);
  });

  test('learns what its models are for from its list, or else from their names', async () => {
    await using upstream = await startUpstreamSimulator({
      models: [
        { id: 'told/plain', capabilities: ['embed', 'rerank'] },
        { id: 'told/embed-chat', type: 'chat' },
        { id: 'told/ears', task: 'automatic-speech-recognition' },
        { id: 'told/painter', type: 'image', capabilities: { vision: true } },
        { id: 'told/other-tts', model_type: 'audio', task: 7 },
        { id: 'told/anything', type: 'rerank' },
      ],
    });
    const { json } = await admin('POST', '/upstreams', { base_url: upstream.url });
    const operations = json.models.map((model: { id: string; operations: string[] }) => [
      model.id,
      model.operations[0],
    ]);
    expect(Object.fromEntries(operations)).toEqual({
      'told/plain': 'embeddings',
      'told/embed-chat': 'chat_completions',
      'told/ears': 'audio_transcriptions',
      'told/painter': 'images_generations',
      'told/other-tts': 'audio_speech',
      'told/anything': 'chat_completions',
    });
  });

  test('keeps deployments as an operator has set them, except for what it names', async () => {
    const deployment = async () => {
      const { deployments } = (await admin('GET', pathOf('sim-image'))).json;
      // Health is not a setting.
      return deployments.map(({ status, status_reason, status_changed_at, ...rest }: Record<string, unknown>) => rest);
    };
    await register({ secret_reference: 'env:UPSTREAM_FIRST', dialect: 'vllm' });
    const [{ id }] = await deployment();
    await admin('PATCH', `/deployments/${id}`, {
      weight: 7,
      priority: 3,
      concurrency_limit: 20,
      connect_timeout_ms: 1_000,
      total_timeout_ms: 90_000,
      enabled: false,
    });
    const [set] = await deployment();
    expect(set).toMatchObject({ weight: 7, priority: 3, secret_reference: 'env:UPSTREAM_FIRST' });
    const again = await register();
    expect([again.status, again.json.deployments_created]).toEqual([200, 0]);
    expect(await deployment()).toEqual([set]);
    await register({ secret_reference: 'env:UPSTREAM_SECOND' });
    expect(await deployment()).toEqual([{ ...set, secret_reference: 'env:UPSTREAM_SECOND' }]);
    await register({ dialect: 'openai' });
    expect(await deployment()).toEqual([{ ...set, secret_reference: 'env:UPSTREAM_SECOND', dialect: 'openai' }]);
  });
});

/** What each start of a gateway does, with additional environment variables. */
const start = (env: Partial<typeof gateway.env> = {}) =>
  bootstrap({ ...gateway.env, upstreamApiKey: undefined, ...env }, gateway.gateway.switchboard, silentLogger);

describe('a later start', () => {
  test('leaves the sandbox as operators left it, and changes nothing', async () => {
    const { deployments } = (await admin('GET', pathOf('sandbox-embed'))).json;
    await admin('PATCH', `/deployments/${deployments[0].id}`, { weight: 7 });
    await admin('POST', '/prices', { model: 'sandbox-embed', per_request_usd: 2 });
    const left = (await admin('GET', pathOf('sandbox-embed'))).json;
    expect((await admin('DELETE', pathOf('sandbox-speech'))).status).toBe(204);
    // A deployment's health may change between two starts, but not between every two.
    const versions = async () => [await start(), await start()].map(({ catalogVersion }) => catalogVersion);
    await expect.poll(async () => new Set(await versions()).size).toBe(1);
    expect((await admin('GET', pathOf('sandbox-embed'))).json).toEqual(left);
    expect((await admin('GET', pathOf('sandbox-speech'))).status).toBe(404);
  });

  test('leaves the registered the models of UPSTREAM_BASE_URL as operators left them', async () => {
    await using upstream = await startUpstreamSimulator({
      models: ['left/deleted', 'left/changed', 'left/undeployed'],
    });
    await start({ upstreamBaseUrl: upstream.url });
    const deploymentsOf = async (model: string) => (await admin('GET', pathOf(model))).json.deployments;
    expect((await admin('DELETE', pathOf('left/deleted'))).status).toBe(204);
    const [changed] = await deploymentsOf('left/changed');
    await admin('PATCH', `/deployments/${changed.id}`, { weight: 7 });
    const [undeployed] = await deploymentsOf('left/undeployed');
    expect((await admin('DELETE', `/deployments/${undeployed.id}`)).status).toBe(204);

    await start({ upstreamBaseUrl: upstream.url });
    expect((await admin('GET', pathOf('left/deleted'))).status).toBe(404);
    expect(await deploymentsOf('left/changed')).toMatchObject([{ id: changed.id, weight: 7 }]);
    expect(await deploymentsOf('left/undeployed')).toEqual([]);
    // Registering an upstream without naming models adds all of them.
    await admin('POST', '/upstreams', { base_url: upstream.url });
    expect(await deploymentsOf('left/deleted')).toHaveLength(1);
    expect(await deploymentsOf('left/undeployed')).toHaveLength(1);
  });

  test('follows UPSTREAM_BASE_URL to another server, and picks up that server’s new models and its key', async () => {
    await using before = await startUpstreamSimulator({ models: ['moved/one', 'moved/deleted'] });
    await using after = await startUpstreamSimulator({ models: ['moved/one', 'moved/deleted', 'moved/new'] });
    await start({ upstreamBaseUrl: before.url });
    await admin('DELETE', pathOf('moved/deleted'));
    await start({ upstreamBaseUrl: after.url });
    const deployments = async (model: string) =>
      (await admin('GET', pathOf(model))).json.deployments.map(
        (one: Record<string, unknown>) => `${one.base_url} ${one.secret_reference}`,
      );
    expect(await deployments('moved/one')).toEqual([`${before.url} null`, `${after.url} null`]);
    expect(await deployments('moved/new')).toEqual([`${after.url} null`]);
    expect((await admin('GET', pathOf('moved/deleted'))).status).toBe(404);
    await start({ upstreamBaseUrl: after.url, upstreamApiKey: 'a key that came later' });
    expect(await deployments('moved/one')).toEqual([`${before.url} null`, `${after.url} env:UPSTREAM_API_KEY`]);
  });

  test('may happen at the same time as another', async () => {
    const models = gateway.gateway.switchboard.client('bootstrap', ModelsService);
    const self = { contextValues: callerContext(serviceCaller('bootstrap')) };
    const request = { models: ['both-1', 'both-2', 'both-3'].map((name) => ({ name, settings: {} })), onlyNew: true };
    const counts = await Promise.all([1, 2, 3, 4].map(() => models.importCatalog(request, self)));
    expect(counts.map(({ modelsCreated }) => modelsCreated).sort()).toEqual([0, 0, 0, 3]);
  });

  test('is a right of no other service', async () => {
    const models = gateway.gateway.switchboard.client('edge', ModelsService);
    const edge = { contextValues: callerContext(serviceCaller('edge')) };
    const insufficient = { reason: ErrorReason.INSUFFICIENT_ROLE };
    await expect(models.registerUpstream({ baseUrl: simulator.url }, edge)).rejects.toMatchObject(insufficient);
    await expect(models.importCatalog({ models: [{ name: 'of-an-edge', settings: {} }] }, edge)).rejects.toMatchObject(
      insufficient,
    );
  });
});
