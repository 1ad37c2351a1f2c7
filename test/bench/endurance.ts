/*
 * A gateway in use for hours: `node test/bench/endurance.ts [minutes]`, by default 60. Chats, streams, abandoned streams, every other
 * operation, realtime sessions, jobs, keys that come and go, sign-ins, reports, refused calls: some 66 calls a second by the unmodified
 * client, answered by the sandbox. Fails if a call is answered in any way but the right one, if usage is not exactly what the clients
 * counted, if the ledger or the audit log is not sound, if memory still grows or if connections stay open.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import OpenAI, { toFile } from 'openai';
import { freePort } from '../support/free-port.ts';
import { startProcess } from '../support/processes.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';
import { memoryMiBOf } from './machine.ts';
import { isFlat } from './soak.ts';

const minutes = Number(process.argv[2] ?? 60);
const tickMs = 50;
/** The most calls in flight; beyond that, calls are skipped. */
const underWayMax = 500;
/** How many more sockets and files may be open at the end than at the start: Postgres and the client keep some connections. */
const openMoreMax = 40;

type Kind = { perSecond: number; run: () => Promise<unknown> };

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const dayAt = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
/** The range of reports: all days of the run. */
const month = `start_date=${dayAt(Date.now() - 20 * 86_400_000)}&end_date=${dayAt(Date.now() + 86_400_000)}`;
const owner = { email: 'owner@example.com', password: 'Correct-horse-1' };
const folder = mkdtempSync(join(tmpdir(), 'endurance-'));
const url = `http://127.0.0.1:${await freePort()}`;
const env = {
  PORT: new URL(url).port,
  RPC_PORT: String(await freePort()),
  DATA_DIR: folder,
  BOOTSTRAP_EMAIL: owner.email,
  BOOTSTRAP_PASSWORD: owner.password,
  LOG_LEVEL: 'error',
};
const gateway = startProcess({ script: 'services/cmd/all.ts', env });
/** The number of metered calls, by model. */
const metered = new Map<string, number>();
const counts = new Map<string, number>();
const faults = new Map<string, number>();
let underWay = 0;
let session = '';
try {
  await gateway.waitForLine(/API and portal/);
  await main();
} finally {
  await gateway.kill();
  rmSync(folder, { recursive: true, force: true });
}

async function main(): Promise<void> {
  await signIn();
  const { id, key } = await rest('POST', '/api/v1/api-keys', { name: 'endurance', spend_cap_usd: 1_000_000 });
  const limits = { requests_per_minute: 10_000_000, tokens_per_minute: 2_000_000_000, concurrent_requests: 1_000 };
  const { data } = await rest('GET', '/api/v1/admin/organizations');
  await rest('PATCH', `/api/v1/admin/organizations/${data[0].id}`, { rate_limits: limits });
  const openAtStart = openFiles();
  const memoryMiB = await keepAllUp(kindsOfCalls(key, id));
  await signIn();

  const problems: string[] = [...faults].map(([fault, times]) => `${times} × ${fault}`);
  const used = await waitFor(usageThatWasCounted, { description: 'all usage' }).catch((error) => {
    problems.push(String(error));
  });
  if (!isFlat(memoryMiB)) problems.push(`memory grows: ${memoryMiB.map((mib) => mib.toFixed(0)).join(', ')} MiB`);
  await waitFor(() => openFiles() <= openAtStart + openMoreMax, { description: 'connections to close' }).catch(() =>
    problems.push(`${openFiles()} files and sockets are open, ${openAtStart} were at the start`),
  );
  for (const command of ['ledger', 'audit']) {
    await admin(command, 'verify', '--organization', data[0].id).then(print, (error) => {
      problems.push(`${command}: ${error.stderr || error}`);
    });
  }
  print([...counts].map(([kind, count]) => `${count} ${kind}`).join(', '));
  print(`${used ?? 'unknown'} metered calls; memory ${range(memoryMiB)} MiB; ${openFiles()} open files and sockets`);
  for (const problem of problems) print(`! ${problem}`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}

/**
 * Keeps every kind of call at its rate until the time is over and all are answered. Returns the memory of the gateway's own process after
 * each minute.
 */
async function keepAllUp(kinds: Record<string, Kind>): Promise<number[]> {
  const timers = Object.entries(kinds).map(([name, { perSecond, run }]) => {
    let due = Math.random();
    return setInterval(() => {
      for (due += (perSecond * tickMs) / 1_000; due >= 1; due -= 1) if (underWay < underWayMax) void attempt(name, run);
    }, tickMs);
  });
  const renewal = setInterval(() => void attempt('renewals of the session', signIn), 600_000);
  const memoryMiB: number[] = [];
  for (let minute = 1; minute <= minutes; minute += 1) {
    await delay(60_000);
    memoryMiB.push(memoryMiBOf(gateway.pid));
    const calls = [...counts.values()].reduce((sum, count) => sum + count, 0);
    print(
      `${minute} min: ${calls} calls, ${memoryMiB.at(-1)!.toFixed(0)} MiB, ${openFiles()} open, ${faults.size} faults`,
    );
  }
  for (const timer of [...timers, renewal]) clearInterval(timer);
  await waitFor(() => underWay === 0, { description: 'the last answers', timeoutMs: 60_000 });
  return memoryMiB;
}

async function attempt(name: string, run: () => Promise<unknown>): Promise<void> {
  underWay += 1;
  try {
    await run();
    counts.set(name, (counts.get(name) ?? 0) + 1);
  } catch (error) {
    const fault = `${name}: ${String((error as Error).message).slice(0, 200)}`;
    faults.set(fault, (faults.get(fault) ?? 0) + 1);
  } finally {
    underWay -= 1;
  }
}

function kindsOfCalls(key: string, keyId: string): Record<string, Kind> {
  const client = clientOf(key);
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user' as const, content: 'Hello there. '.repeat(10) }] };
  const file = wavOf(1);
  const get = (perSecond: number, path: string): Kind => ({ perSecond, run: () => rest('GET', path) });
  /** A call that must appear in usage once it was answered. */
  const call = (perSecond: number, model: string, ask: (client: OpenAI) => Promise<unknown>): Kind => ({
    perSecond,
    run: () => meteredCall(model, () => ask(client)),
  });
  return {
    chats: call(40, 'sandbox-chat', ({ chat: { completions } }) => completions.create(chat)),
    streams: call(8, 'sandbox-chat', async ({ chat: { completions } }) => {
      for await (const _chunk of await completions.create({ ...chat, stream: true }));
    }),
    'streams that were left': call(1, 'sandbox-chat', async ({ chat: { completions } }) => {
      for await (const _chunk of await completions.create({ ...chat, stream: true })) break;
    }),
    completions: call(2, 'sandbox-chat', ({ completions }) =>
      completions.create({ model: 'sandbox-chat', prompt: 'Hello' }),
    ),
    embeddings: call(4, 'sandbox-embed', ({ embeddings }) =>
      embeddings.create({ model: 'sandbox-embed', input: ['one', 'two'] }),
    ),
    images: call(0.3, 'sandbox-image', ({ images }) => images.generate({ model: 'sandbox-image', prompt: 'a cat' })),
    speeches: call(0.5, 'sandbox-speech', async ({ audio: { speech } }) =>
      (await speech.create({ model: 'sandbox-speech', input: 'Hello', voice: 'alloy' })).arrayBuffer(),
    ),
    transcripts: call(0.5, 'sandbox-transcribe', async ({ audio: { transcriptions } }) =>
      transcriptions.create({ model: 'sandbox-transcribe', file: await toFile(file, 'a.wav') }),
    ),
    'realtime sessions': { perSecond: 0.2, run: () => meteredCall('sandbox-transcribe', () => realtimeSession(key)) },
    jobs: call(0.5, 'sandbox-chat', ({ chat: { completions } }) =>
      completions.create({ ...chat, background: true } as typeof chat),
    ),
    'keys that came and went': { perSecond: 0.1, run: () => keyThatComesAndGoes(chat) },
    'sign-ins': {
      perSecond: 0.05,
      run: async () => {
        const { access_token: own } = await rest('POST', '/api/v1/auth/login', owner);
        await rest('POST', '/api/v1/auth/logout', undefined, own);
      },
    },
    'invented keys': refused(1, 401, () => clientOf('sk-proj-nobody').models.list()),
    'unknown models': refused(1, 404, () => client.chat.completions.create({ ...chat, model: 'nobody' })),
    'broken bodies': refused(1, 400, () => client.post('/chat/completions', { body: '{"model": ' })),
    'list of models': { perSecond: 0.2, run: () => client.models.list() },
    history: get(0.2, '/api/v1/usage/history'),
    reports: get(0.2, `/api/v1/usage/report?${month}`),
    summaries: get(0.2, `/api/v1/usage/summary?${month}`),
    analytics: get(0.2, `/api/v1/usage/api-keys/${keyId}/analytics`),
    wallets: get(0.2, '/api/v1/billing/wallet'),
    'lists of jobs': get(0.2, '/api/v1/jobs'),
    'audit logs': get(0.1, '/api/v1/audit-events'),
    'portal pages': get(0.3, '/'),
    metrics: get(0.2, '/metrics'),
  };
}

async function meteredCall(model: string, ask: () => Promise<unknown>): Promise<void> {
  await ask();
  metered.set(model, (metered.get(model) ?? 0) + 1);
}

function clientOf(apiKey: string): OpenAI {
  return new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 });
}

/** A call that has to be refused with a status. */
function refused(perSecond: number, status: number, ask: () => Promise<unknown>): Kind {
  const run = async (): Promise<void> => {
    const error = await Promise.resolve(ask()).then(
      () => null,
      (thrown) => thrown,
    );
    if (error?.status !== status) throw new Error(`not ${status} but ${error?.status ?? 'an answer'}`);
  };
  return { perSecond, run };
}

/** A key that must be refused once its deletion was answered. */
async function keyThatComesAndGoes(chat: OpenAI.ChatCompletionCreateParamsNonStreaming): Promise<void> {
  const { id, key } = await rest('POST', '/api/v1/api-keys', { name: 'comes and goes' });
  const client = clientOf(key);
  await meteredCall(chat.model, () => client.chat.completions.create(chat));
  await rest('DELETE', `/api/v1/api-keys/${id}`);
  await refused(0, 401, () => client.models.list()).run();
}

/** One utterance of a second, from the upgrade to the close. */
async function realtimeSession(key: string): Promise<void> {
  const protocols = ['realtime', `openai-insecure-api-key.${key}`];
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/realtime?intent=transcription`, protocols);
  const transcript = Promise.withResolvers<void>();
  socket.addEventListener('message', ({ data }) => {
    const { type, error } = JSON.parse(data);
    if (type === 'error') transcript.reject(new Error(error.message));
    if (type === 'conversation.item.input_audio_transcription.completed') transcript.resolve();
  });
  socket.addEventListener('close', ({ code }) => transcript.reject(new Error(`closed with ${code}`)));
  await Promise.race([once(socket, 'open'), transcript.promise]);
  const input = { transcription: { model: 'sandbox-transcribe' }, turn_detection: null };
  for (const event of [
    { type: 'session.update', session: { type: 'transcription', audio: { input } } },
    { type: 'input_audio_buffer.append', audio: Buffer.alloc(48_000, 1).toString('base64') },
    { type: 'input_audio_buffer.commit' },
  ]) {
    socket.send(JSON.stringify(event));
  }
  await transcript.promise;
  socket.close();
}

/** The number of all calls, once usage has exactly those; otherwise throws what it has. */
async function usageThatWasCounted(): Promise<number> {
  const { by_model: models } = await rest('GET', `/api/v1/usage/summary?${month}`);
  const seen = Object.fromEntries(models.map((one: { model: string; requests: number }) => [one.model, one.requests]));
  for (const [model, count] of metered) {
    if (seen[model] !== count) throw new Error(`usage has ${seen[model]} calls of ${model}, its clients ${count}`);
  }
  return [...metered.values()].reduce((sum, count) => sum + count, 0);
}

async function signIn(): Promise<void> {
  session = (await rest('POST', '/api/v1/auth/login', owner)).access_token;
}

/** A call of the REST API; rejects unless it succeeds. */
// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
async function rest(method: string, path: string, body?: unknown, token = session): Promise<any> {
  const answer = await fetch(url + path, {
    method,
    headers: {
      ...(token !== '' && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${text}`);
  return answer.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : text;
}

async function admin(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['services/cmd/admin.ts', ...args], {
    env: { ...process.env, ...env },
  });
  return stdout.trim();
}

function openFiles(): number {
  return readdirSync(`/proc/${gateway.pid}/fd`).length;
}

function range(values: readonly number[]): string {
  return `${Math.min(...values).toFixed(0)} to ${Math.max(...values).toFixed(0)}`;
}
