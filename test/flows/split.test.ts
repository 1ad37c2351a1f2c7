import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { status as grpcStatus } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Health, HealthCheckResponse_ServingStatus as Status } from '#gen/grpc/health/v1/health_pb.ts';
import { InferenceService, type InvokeResponse } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { type Gateway, type GatewayParts, startGateway } from '../../services/cmd/gateway.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { freePort } from '../support/free-port.ts';
import { owner, testSecrets } from '../support/gateway.ts';
import { callerOfKey, grpcClient, invokeByGrpc } from '../support/grpc-client.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../support/postgres.ts';
import { type StartedProcess, startProcess } from '../support/processes.ts';
import { upgradeRefusal } from '../support/realtime-client.ts';
import { restCalls } from '../support/rest.ts';
import { silentLogger } from '../support/silent-logger.ts';
import { startUpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

/** The issuer of Auth's sessions; edges that listen elsewhere are told it. */
const authPublicUrl = 'http://127.0.0.1:0';

type Job = { id: string; status: string };

let folder: string;
let database: TestDatabase;
const processes: StartedProcess[] = [];
let url: string;
let call: ReturnType<typeof restCalls>;
let common: Record<string, string>;
let operatorSession: () => Promise<string>;
let rest: StartedProcess;
let startRest: () => StartedProcess;
let start: (script: string, args: string[], env: Record<string, string>) => StartedProcess;
let ports: { identity: number; rest: number };
let inferenceUrl: string;

/** RPC_URLS with Keys and Auth, Models, and the other services at these ports. */
const urlsAt = ({ identity, models, rest }: { identity: number; models: number; rest: number }): string =>
  Object.entries({ keys: identity, auth: identity, models, usage: rest, billing: rest, jobs: rest })
    .map(([name, port]) => `${name}=http://127.0.0.1:${port}`)
    .join(',');

/** What each part is told, with a data folder of its own. */
const environment = (): Record<string, string> => ({
  ...testSecrets,
  DATABASE_URL: database.url,
  DATA_DIR: mkdtempSync(join(folder, 'data-')),
  LOG_LEVEL: 'silent',
  PORT: '0',
});

/** Starts a part in this process, which costs less than one more. */
const startHere = (
  parts: Partial<GatewayParts>,
  env: Record<string, string>,
  logger = silentLogger,
): Promise<Gateway> =>
  startGateway(
    readEnv({ ...environment(), RPC_PORT: '0', ...env }),
    { services: [], edge: false, worker: false, ...parts },
    logger,
  );

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'gateway-split-'));
  database = await createTestDatabase();
  start = (script, args, env) => {
    const started = startProcess({ script, args, env: { ...environment(), ...env } });
    processes.push(started);
    return started;
  };
  // Each half is told where the other will be.
  ports = { identity: await freePort(), rest: await freePort() };
  const RPC_URLS = urlsAt({ ...ports, models: ports.rest });
  const ofRest = 'models,usage,billing,jobs';
  startRest = () => start('services/cmd/service.ts', [ofRest], { RPC_URLS, RPC_PORT: String(ports.rest) });
  rest = startRest();
  const services = [
    start('services/cmd/service.ts', ['keys,auth'], { RPC_URLS, RPC_PORT: String(ports.identity) }),
    rest,
  ];
  await Promise.all(services.map((service) => service.waitForLine(/ at http:/)));
  const edge = start('services/cmd/edge.ts', [], { RPC_URLS });
  const worker = start('services/cmd/worker.ts', [], { RPC_URLS });
  const inference = start('services/cmd/service.ts', ['inference'], { RPC_URLS, RPC_PORT: '0' });
  inferenceUrl = `http://127.0.0.1:${await inference.waitForPort(/^inference at http:\/\/127\.0\.0\.1:(\d+)/)}`;
  url = `http://127.0.0.1:${await edge.waitForPort(/The edge listens on http:\/\/127\.0\.0\.1:(\d+)/)}`;
  call = restCalls(url);
  await worker.waitForLine(/The worker takes jobs/);
  common = { ...testSecrets, RPC_URLS, BOOTSTRAP_EMAIL: owner.email, DATA_DIR: join(folder, 'admin') };
});
afterAll(async () => {
  await Promise.all(processes.map((started) => started.kill()));
  await database?.drop();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

test('services, edge and worker in separate processes are started by one command and serve calls, jobs and usage', async () => {
  const admin = async (...words: string[]) => {
    const env = { ...process.env, ...common };
    const script = ['services/cmd/admin.ts', ...words, '--json'];
    return JSON.parse((await promisify(execFile)(process.execPath, script, { env })).stdout);
  };
  const made = await admin('bootstrap');
  expect(made).toEqual({ operator: owner.email, created: true, password: expect.stringMatching(/^.{16,}$/) });
  expect(await admin('bootstrap')).toEqual({ operator: owner.email, created: false });
  const ready = () =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await waitFor(ready, { description: 'the edge to be ready' });

  const credentials = { email: owner.email, password: made.password };
  operatorSession = async () => (await call('POST', '/api/v1/auth/login', '', credentials)).access_token;
  const session = await operatorSession();
  const { key } = await call('POST', '/api/v1/api-keys', session, { name: 'split' });
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const path = '/v1/chat/completions';
  await waitFor(
    async () => (await call('GET', '/v1/models', key)).data.some(({ id }: { id: string }) => id === chat.model),
    {
      description: 'the sandbox in the catalog',
    },
  );
  expect((await call('POST', path, key, chat)).choices).toHaveLength(1);
  const job = await call('POST', path, key, chat, { prefer: 'respond-async' });
  const done = () => call('GET', `/api/v1/jobs/${job.id}`, session).then(({ status }) => status === 'completed');
  await waitFor(done, { description: 'the job to be done' });
  const stored = async () => (await call('GET', '/api/v1/usage/history', session)).data.length === 2;
  await waitFor(stored, { description: 'both calls in the usage' });
  const today = new Date().toISOString().slice(0, 10);
  const summary = await call('GET', `/api/v1/usage/summary?start_date=2026-01-01&end_date=${today}`, session);
  expect(summary.by_api_key).toMatchObject([{ api_key_name: 'split', api_key_deleted: false, requests: 2 }]);
  const charged = async () => (await admin('ledger', 'verify')).entries_checked > 0;
  await waitFor(charged, { description: 'both calls in the ledger' });
});

/** Everything that InferenceService answers to a caller's chat. */
async function chatByGrpc(
  client: ReturnType<typeof grpcClient>,
  caller: ReturnType<typeof callerOfKey>,
): Promise<InvokeResponse[]> {
  const stream = await invokeByGrpc(
    client,
    { caller, secrets: [testSecrets.SERVICE_SECRET] },
    {
      operation: Operation.CHAT_COMPLETIONS,
      contentType: 'application/json',
      body: Buffer.from('{"model":"sandbox-chat","messages":[{"role":"user","content":"Hi"}]}'),
    },
  );
  return Array.fromAsync(stream);
}

test('a separate inference part invokes models for callers without one, metered like all others', async () => {
  const session = await operatorSession();
  const { id } = await call('POST', '/api/v1/api-keys', session, { name: 'by gRPC' });
  const client = grpcClient(inferenceUrl);
  const answers = await chatByGrpc(client, callerOfKey(session, id));
  client.close();
  expect(answers[0]!.head).toMatchObject({ status: 200, model: 'sandbox-chat' });
  const { eventId, success } = answers.at(-1)!.end!;
  expect(success).toBe(true);
  const ids = async () =>
    (await call('GET', '/api/v1/usage/history', session)).data.map((event: { id: string }) => event.id);
  await waitFor(async () => (await ids()).includes(eventId), { description: 'the call in the usage' });
});

test('edges that keep running while a backup is restored follow its catalog, though they know a later one', async () => {
  const session = await operatorSession();
  const { key, id } = await call('POST', '/api/v1/api-keys', session, { name: 'restored' });
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  /** What a call costs now. */
  const cost = async (): Promise<number> => {
    const last = async () => (await call('GET', `/api/v1/usage/history?limit=1&api_key_id=${id}`, session)).data[0];
    const before = await last();
    const answer = await call('POST', '/v1/chat/completions', key, chat);
    if (answer.choices === undefined) throw new Error(JSON.stringify(answer));
    const event = async () => {
      const event = await last();
      return event?.id !== before?.id && event;
    };
    return (await waitFor(event, { description: 'the event of a call' })).cost_usd;
  };
  const usual = await cost();
  const [backup] = await rowsOf(database.url, 'select version from models.catalog_version');
  await call('POST', '/api/v1/admin/prices', session, { model: chat.model, per_request_usd: usual + 1 });
  await waitFor(async () => (await cost()) === usual + 1, { description: 'the price to be known to the edge' });

  await rest.kill();
  await rowsOf(
    database.url,
    'delete from models.prices where id = (select id from models.prices order by created_at desc limit 1)',
  );
  await rowsOf(database.url, 'update models.catalog_version set version = $1', [backup.version]);
  rest = startRest();
  await rest.waitForLine(/ at http:/);
  await waitFor(async () => (await cost()) === usual, { description: 'the restored price to be known to the edge' });
});

test('an edge returns a job’s result of tens of megabytes that comes from another process', async () => {
  await using simulator = await startUpstreamSimulator();
  const paddingBytes = 10 * 1024 * 1024;
  simulator.otherwise({ paddingBytes });
  const session = await operatorSession();
  const { key } = await call('POST', '/api/v1/api-keys', session, { name: 'large results' });
  const model = { name: 'sim-image', operations: ['images_generations'], visibility: 'public' };
  await call('POST', '/api/v1/admin/models', session, model);
  const deployment = { model: model.name, base_url: simulator.url, upstream_model: model.name };
  await call('POST', '/api/v1/admin/deployments', session, deployment);
  const isServed = async () => (await call('GET', `/v1/models/${model.name}`, key)).is_serviceable;
  await waitFor(isServed, { description: 'the deployment to be found well' });
  const request = { model: model.name, prompt: 'A cat', n: 4, background: true };
  const job = await call('POST', '/v1/images/generations', key, request);
  const isDone = async () =>
    (await call('GET', '/api/v1/jobs', session)).data.some(
      ({ id, status }: Job) => id === job.id && status === 'completed',
    );
  await waitFor(isDone, { description: 'the job to be done' });
  const { result } = await call('GET', `/api/v1/jobs/${job.id}`, session);
  expect(result.data).toHaveLength(request.n);
  for (const { b64_json: image } of result.data) expect(image.length).toBeGreaterThan(paddingBytes);
});

test('a change of an organization is not applied by half while one of its services is away, and completed by a repeat', async () => {
  const session = await operatorSession();
  const { id, name } = await call('GET', '/api/v1/organization', session);
  const path = `/api/v1/admin/organizations/${id}`;
  const change = { name: 'Renamed', key_quota: 7, rate_limits: { requests_per_minute: 70 } };
  const statusOfChange = async () => {
    const headers = { authorization: `Bearer ${session}`, 'content-type': 'application/json' };
    return (await fetch(url + path, { method: 'PATCH', headers, body: JSON.stringify(change) })).status;
  };
  await rest.kill();
  expect(await statusOfChange()).toBe(503);
  expect((await call('GET', '/api/v1/organization', session)).name).toBe(name);
  expect((await call('GET', `${path}/key-quota`, session)).keys_per_user).toBe('default');
  rest = startRest();
  await rest.waitForLine(/ at http:/);
  await waitFor(async () => (await statusOfChange()) === 200, { description: 'the change to be taken' });
  expect(await call('GET', path, session)).toMatchObject(change);
});

test('an edge that finds no services at its start shows its health at once, refuses calls with 503 until they are there, and then serves', async () => {
  const session = await operatorSession();
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const { key } = await call('POST', '/api/v1/api-keys', session, { name: 'early', model_allowlist: [chat.model] });
  const proxyTo = (port: number) => startFaultProxy({ target: { host: '127.0.0.1', port } });
  await using identity = await proxyTo(ports.identity);
  await using models = await proxyTo(ports.rest);
  await using others = await proxyTo(ports.rest);
  for (const proxy of [identity, models, others]) await proxy.set({ kind: 'refuse' });
  const RPC_URLS = urlsAt({ identity: identity.port, models: models.port, rest: others.port });
  const edge = await startHere({ edge: true }, { RPC_URLS, PUBLIC_URL: authPublicUrl });
  await using _closed = { [Symbol.asyncDispose]: () => edge.close() };
  const early = edge.url!;
  const status = async (path: string) => (await fetch(early + path)).status;
  expect(await status('/healthz')).toBe(200);
  let isReady = false;
  const ready = edge.ready().then(() => {
    isReady = true;
  });

  const ask = async (method: string, path: string, token: string, body?: object) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(early + path, { method, headers, body: body && JSON.stringify(body) });
    return { status: answer.status, retryAfter: Number(answer.headers.get('retry-after')), json: await answer.json() };
  };
  const unready = async () => (await ask('GET', '/readyz', '')).json;
  const expectOverload = async (method: string, path: string, token: string, body?: object) => {
    const answer = await ask(method, path, token, body);
    expect(answer, `${method} ${path}`).toMatchObject({
      status: 503,
      json: { error: { type: 'service_unavailable_error', code: 'server_is_overloaded' } },
    });
    expect(answer.retryAfter).toBeGreaterThanOrEqual(5);
    expect(answer.retryAfter).toBeLessThanOrEqual(15);
  };
  expect(await unready()).toEqual({ status: 'not ready', reason: 'no catalog from Models yet' });
  // Whether these are valid cannot be known yet.
  for (const token of [key, session]) await expectOverload('POST', '/v1/chat/completions', token, chat);
  expect(await ask('POST', '/v1/chat/completions', 'sk-mistyped', chat)).toMatchObject({ status: 401 });

  for (const proxy of [identity, others]) await proxy.set({ kind: 'pass' });
  const isKnown = async () => (await ask('GET', '/api/v1/profile', session)).status === 200;
  await waitFor(isKnown, { description: 'sessions to be known' });
  expect(await unready()).toEqual({ status: 'not ready', reason: 'no catalog from Models yet' });
  const unknown = { ...chat, model: 'no-such-model' };
  for (const token of [key, session]) {
    for (const body of [chat, unknown, { ...chat, background: true }]) {
      await expectOverload('POST', '/v1/chat/completions', token, body);
    }
    await expectOverload('GET', '/v1/models', token);
    await expectOverload('GET', '/api/v1/models', token);
    await expectOverload('GET', `/v1/models/${chat.model}`, token);
    await expectOverload('GET', '/v1/models/deprecations', token);
    for (const query of ['?intent=transcription', '?model=sandbox-transcribe']) {
      const { status, headers, body } = await upgradeRefusal(early, { key: token, query });
      expect([status, body.error.code, headers['retry-after']]).toEqual([503, 'server_is_overloaded', '5']);
    }
  }
  await expectOverload('POST', '/api/v1/jobs', session, { endpoint: '/v1/chat/completions', body: chat });
  expect(await status(`/retirements/${chat.model}`)).toBe(503);
  expect(isReady).toBe(false);

  await models.set({ kind: 'pass' });
  await ready;
  expect(await status('/readyz')).toBe(200);
  for (const token of [key, session]) {
    expect(await ask('POST', '/v1/chat/completions', token, chat)).toMatchObject({ status: 200 });
    const { json } = await ask('GET', '/v1/models', token);
    expect(json).toMatchObject({ data: expect.arrayContaining([expect.objectContaining({ id: chat.model })]) });
  }
  expect(await ask('POST', '/v1/chat/completions', session, unknown)).toMatchObject({ status: 404 });
});

test('a worker and an inference part that find no Models at their start show their health at once, and take jobs and calls once it is there', async () => {
  const session = await operatorSession();
  const { key, id } = await call('POST', '/api/v1/api-keys', session, { name: 'early too' });
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  await using models = await startFaultProxy({ target: { host: '127.0.0.1', port: ports.rest } });
  await models.set({ kind: 'refuse' });
  const RPC_URLS = urlsAt({ ...ports, models: models.port });
  const metrics = { worker: await freePort(), inference: await freePort() };
  const found: string[] = [];
  const worker = startHere({ worker: true }, { RPC_URLS, METRICS_PORT: String(metrics.worker) });
  const workerFound = worker.then(() => found.push('worker'));
  const inference = await startHere({ inference: true }, { RPC_URLS, METRICS_PORT: String(metrics.inference) });
  const inferenceFound = inference.ready().then(() => found.push('inference'));
  await using _closed = {
    async [Symbol.asyncDispose]() {
      await models.set({ kind: 'pass' });
      await Promise.all([inference.close(), worker.then(({ close }) => close())]);
    },
  };
  const readiness = async (port: number) => (await fetch(`http://127.0.0.1:${port}/readyz`)).text();
  for (const port of Object.values(metrics)) {
    const saysWhat = async () => (await readiness(port).catch(() => '')).includes('no catalog from Models yet');
    await waitFor(saysWhat, { description: 'what is missing' });
  }

  const transport = createRpcClientTransport({ url: inference.rpcUrl! });
  const health = createRpcClient(Health, transport);
  const serving = async () => {
    const answers = ['', InferenceService.typeName].map((service) => health.check({ service }));
    return (await Promise.all(answers)).map(({ status }) => status);
  };
  expect(await serving()).toEqual([Status.NOT_SERVING, Status.NOT_SERVING]);
  const client = grpcClient(inference.rpcUrl!);
  const invoke = () => chatByGrpc(client, callerOfKey(session, id));
  await expect(invoke()).rejects.toMatchObject({
    code: grpcStatus.UNAVAILABLE,
    details: 'The gateway has not loaded its models yet. Try again shortly.',
  });
  expect(found).toEqual([]);

  await models.set({ kind: 'pass' });
  await Promise.all([workerFound, inferenceFound]);
  for (const port of Object.values(metrics)) expect(await readiness(port)).toBe('{"status":"ready"}');
  expect(await serving()).toEqual([Status.SERVING, Status.SERVING]);
  expect((await invoke())[0]!.head).toMatchObject({ status: 200, model: chat.model });
  client.close();
  transport.close();
  const job = await call('POST', '/v1/chat/completions', key, chat, { prefer: 'respond-async' });
  const done = () => call('GET', `/api/v1/jobs/${job.id}`, session).then(({ status }) => status === 'completed');
  await waitFor(done, { description: 'the job to be done' });
});

test.each([
  [
    'pepper than Keys has is never ready, for it would refuse all keys',
    { PUBLIC_URL: authPublicUrl, KEY_PEPPER: 'a pepper of its own that is long enough' },
    /KEY_PEPPER differs from that of Keys \(version 1\)/,
  ],
  [
    'PUBLIC_URL than Auth has is never ready, for it would refuse all sessions',
    { PUBLIC_URL: 'http://edge.test' },
    /PUBLIC_URL differs: this edge has http:\/\/edge\.test, Auth has http:\/\/127\.0\.0\.1:0/,
  ],
])('an edge with another %s, and says why', async (_what, env: Record<string, string>, line) => {
  const logged: string[] = [];
  const logger = createLogger({
    level: 'warn',
    name: 'edge',
    destination: { write: (text) => void logged.push(text) },
  });
  const RPC_URLS = urlsAt({ ...ports, models: ports.rest });
  const edge = await startHere({ edge: true }, { RPC_URLS, ...env }, logger);
  await using _closed = { [Symbol.asyncDispose]: () => edge.close() };
  await waitFor(() => logged.some((text) => line.test(text)), { description: 'the difference in the log' });
  const reason = 'no keys from Keys, or no sessions from Auth, yet';
  const lacksNothingElse = async () => (await (await fetch(`${edge.url}/readyz`)).text()).includes(reason);
  await waitFor(lacksNothingElse, { description: 'all else to be there' });
  if (env.KEY_PEPPER !== undefined) expect(logged.join('')).not.toContain(env.KEY_PEPPER);
});

test('an edge that still waits for the services ends on SIGTERM, and never claims to listen', async () => {
  const port = await freePort();
  const RPC_URLS = urlsAt({ identity: 1, models: 1, rest: 1 });
  const edge = start('services/cmd/edge.ts', [], { RPC_URLS, PORT: String(port), SHUTDOWN_DELAY_SECONDS: '0' });
  const isAlive = () =>
    fetch(`http://127.0.0.1:${port}/healthz`).then(
      ({ ok }) => ok,
      () => false,
    );
  await waitFor(isAlive, { description: 'the edge to listen' });
  edge.signal('SIGTERM');
  expect(await edge.exited(15_000)).toEqual({ code: 0, signal: null });
  expect(edge.output).toBe('');
});

test('operators whose shell cannot reach the services, or has another secret, are told what to check', async () => {
  const port = String(await freePort());
  for (const [env, text] of [
    [{ RPC_URLS: '', RPC_PORT: port }, `expected at http://127.0.0.1:${port}: start it, or set RPC_PORT`],
    [{ SERVICE_SECRET: 'the secret of another gateway that is long enough' }, 'Set SERVICE_SECRET to'],
  ] as const) {
    await using shell = startProcess({
      script: 'services/cmd/admin.ts',
      args: ['users', 'list'],
      env: { ...common, ...env },
    });
    expect(await shell.exited()).toMatchObject({ code: 1 });
    expect(shell.output).toContain(text);
  }
});

test('a process that pretends another time, as to rehearse a retirement, is still served by the others', async () => {
  await using shell = startProcess({
    script: 'services/cmd/admin.ts',
    args: ['users', 'list'],
    env: { ...common, CLOCK: '2030-01-01T00:00:00Z' },
  });
  expect(await shell.exited()).toMatchObject({ code: 0 });
});
