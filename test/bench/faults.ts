/*
 * A gateway in use while its parts are paused for up to a minute, killed and restarted, and its Postgres freezes: `node
 * test/bench/faults.ts [minutes]`, by default 5. Two edges, two processes of services, a worker. Fails if a cap was exceeded or some of
 * it stayed lost, if an edge accepted a key or session after the answer that ended it, if an answered call or an accepted job is not in
 * usage or was not charged exactly once, if a job did not complete, if an answer was not a documented one, or if the ledger or the audit log
 * is not sound.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { createLogger } from '#shared/logger.ts';
import { freePort } from '../support/free-port.ts';
import { type StartedProcess, startProcess } from '../support/processes.ts';
import { signalPostgres } from '../support/signal-postgres.ts';
import { waitFor } from '../support/wait-for.ts';

const minutes = Number(process.argv[2] ?? 5);
const capUsd = 2;
/** What each call costs, and what is held for it, so that a cap is reached exactly. */
const callUsd = 0.01;
/** How long to watch that something that was ended is no longer accepted, in milliseconds. */
const watchMs = 3_000;
const patienceMs = 180_000;
/** What a killed edge had leased is free only after five and a half minutes. */
const capPatienceMs = 400_000;

type Part = { name: string; start(): StartedProcess; running: StartedProcess; ready: RegExp; isFaulty: boolean };
// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
type Answer = { status: number; json: any; text: string; requestId: string };
type Key = { id: string; key: string };

const print = (line: string): void => void process.stdout.write(`${line}\n`);
const below = (limit: number): number => Math.floor(Math.random() * limit);
const succeeded = ({ status }: Answer): boolean => status >= 200 && status < 300;
const folder = mkdtempSync(join(tmpdir(), 'faults-'));
const postgres = await startEmbeddedPostgres({
  dataDir: join(folder, 'postgres'),
  logger: createLogger({ level: 'error', name: 'faults' }),
});
const owner = { email: 'owner@example.com', password: '' };
const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
const env: Record<string, string> = {
  KEY_PEPPER: 'a pepper of the faults that is long enough',
  SERVICE_SECRET: 'a service secret of the faults that is long enough',
  PUBLIC_URL: 'http://gateway.example',
  BOOTSTRAP_EMAIL: owner.email,
  LOG_LEVEL: 'error',
};
const parts: Part[] = [];
const edges: string[] = [];
const problems = new Map<string, number>();
const counts = new Map<string, number>();
/** The request ids of the chats that were answered completely. */
const answered: string[] = [];
/** The ids of the jobs that were accepted. */
const jobs: string[] = [];
const capped: Key[] = [];
let session = '';
let goesOn = true;
try {
  await main();
} finally {
  await Promise.all(parts.map(({ running }) => running.kill()));
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function main(): Promise<void> {
  await startParts();
  await signIn();
  const { id: organization } = (await untilDone(() => ask('GET', '/api/v1/admin/organizations', session))).json.data[0];
  const rate_limits = { requests_per_minute: 1_000_000, tokens_per_minute: 1_000_000_000, concurrent_requests: 1_000 };
  const far = { rate_limits, key_quota: 100_000 };
  await untilDone(() => ask('PATCH', `/api/v1/admin/organizations/${organization}`, session, far));
  const price = { model: chat.model, per_request_usd: callUsd };
  await untilDone(() => ask('POST', '/api/v1/admin/prices', session, price));
  const { key } = await createKey({ name: 'lasting' });
  capped.push(await createKey({ name: 'capped', spend_cap_usd: capUsd }));

  const work = [
    ...edges.flatMap((_, edge) => [
      keepDoing(50, () => call(key, edge)),
      keepDoing(50, () => call(key, edge)),
      keepDoing(50, () => call(capped.at(-1)!.key, edge)),
      keepDoing(50, () => call(capped.at(-1)!.key, edge)),
    ]),
    keepDoing(300, () => submitJob(key)),
    keepDoing(15_000, async () => {
      await signIn();
      capped.push(await createKey({ name: 'capped', spend_cap_usd: capUsd }));
    }),
    ...Array.from({ length: 4 }, () => keepDoing(200, keyThatIsDeleted)),
    ...Array.from({ length: 2 }, () => keepDoing(200, keyThatIsNarrowed)),
    ...Array.from({ length: 2 }, () => keepDoing(2_000, sessionThatIsEnded)),
  ];
  await injectFaults();
  goesOn = false;
  await Promise.all(work);
  for (const edge of edges.keys()) await untilDone(() => call(key, edge));

  for (const key of capped) await meet(key);
  for (const id of jobs) await complete(id);
  await waitFor(isAllCharged, { description: 'usage and charges', timeoutMs: patienceMs }).catch((error) =>
    problem(`${error}`),
  );
  const spent = await spentUnderCaps();
  for (const command of ['ledger', 'audit']) {
    await admin(command, 'verify', '--organization', organization).then(print, (error) =>
      problem(`${command}: ${error}`),
    );
  }
  print([...counts].map(([what, count]) => `${count} ${what}`).join(', '));
  print(
    `${answered.length} chats answered, ${jobs.length} jobs accepted; spent under caps of ${capUsd} USD: ${spent.join(', ')}`,
  );
  for (const [what, times] of problems) print(`! ${times} × ${what}`);
  process.exitCode = problems.size > 0 ? 1 : 0;
}

async function startParts(): Promise<void> {
  const groups = [
    { names: ['keys', 'auth'], port: await freePort() },
    { names: ['models', 'usage', 'billing', 'jobs'], port: await freePort() },
  ];
  env.RPC_URLS = groups.flatMap(({ names, port }) => names.map((name) => `${name}=http://127.0.0.1:${port}`)).join(',');
  for (const { names, port } of groups) {
    await startPart(names[0]!, 'service.ts', [names.join(',')], / at http:/, { RPC_PORT: String(port) });
  }
  for (const name of ['edge 1', 'edge 2']) {
    const PORT = String(await freePort());
    edges.push(`http://127.0.0.1:${PORT}`);
    await startPart(name, 'edge.ts', [], /The edge listens/, { PORT });
  }
  await startPart('worker', 'worker.ts', [], /The worker takes jobs/, {});
  owner.password = JSON.parse(await admin('bootstrap', '--json')).password;
}

async function startPart(
  name: string,
  script: string,
  args: string[],
  ready: RegExp,
  own: Record<string, string>,
): Promise<void> {
  const whole = { ...env, DATABASE_URL: postgres.url, DATA_DIR: join(folder, name), PORT: '0', ...own };
  const start = () => startProcess({ script: `services/cmd/${script}`, args, env: whole });
  const part = { name, start, running: start(), ready, isFaulty: false };
  parts.push(part);
  await part.running.waitForLine(ready);
}

/** Injects one fault after another for the given time; resolves when all parts run again. */
async function injectFaults(): Promise<void> {
  const untilMs = performance.now() + minutes * 60_000;
  const under: Promise<unknown>[] = [];
  let isFrozen = false;
  while (performance.now() < untilMs) {
    await delay(300 + below(2_500));
    const chance = Math.random();
    if (chance < 0.1 && !isFrozen) {
      isFrozen = true;
      signalPostgres(postgres.pid(), 'SIGSTOP');
      const thaw = () => {
        signalPostgres(postgres.pid(), 'SIGCONT');
        isFrozen = false;
      };
      under.push(delay(Math.min(pauseMs(), 15_000)).then(thaw));
      count('freezes of Postgres');
    }
    const part = parts[below(parts.length)]!;
    if (chance < 0.1 || part.isFaulty) continue;
    part.isFaulty = true;
    count(chance < 0.16 ? 'kills' : 'pauses');
    under.push(
      (chance < 0.16 ? restart(part) : pause(part)).then(() => {
        part.isFaulty = false;
      }),
    );
  }
  await Promise.all(under);
}

/** Below, around and beyond the two seconds of a key's lease, and beyond the thirty of a budget's. */
function pauseMs(): number {
  const chance = Math.random();
  if (chance < 0.3) return 50 + below(600);
  if (chance < 0.8) return 900 + below(2_500);
  return chance < 0.95 ? 3_500 + below(4_000) : 31_000 + below(30_000);
}

async function pause({ running }: Part): Promise<void> {
  running.signal('SIGSTOP');
  await delay(pauseMs());
  running.signal('SIGCONT');
}

/** As a supervisor does: it may end while starting, if Postgres is paused. */
async function restart(part: Part): Promise<void> {
  do {
    await part.running.kill();
    await delay(below(3_000));
    part.running = part.start();
  } while (!(await part.running.waitForLine(part.ready).then(Boolean, () => false)));
}

async function keepDoing(everyMs: number, work: () => Promise<unknown>): Promise<void> {
  while (goesOn) {
    await work();
    await delay(everyMs);
  }
}

async function keyThatIsDeleted(): Promise<void> {
  const { id, key } = await createKey({ name: 'to be deleted' });
  await callEverywhere(key);
  if (succeeded(await ask('DELETE', `/api/v1/api-keys/${id}`, session))) {
    await watchRefusals('deleted keys', (edge) => call(key, edge));
  }
}

async function keyThatIsNarrowed(): Promise<void> {
  const { id, key } = await createKey({ name: 'to be narrowed' });
  await callEverywhere(key);
  if (succeeded(await ask('PATCH', `/api/v1/api-keys/${id}`, session, { model_allowlist: ['sandbox-embed'] }))) {
    await watchRefusals('narrowed keys', (edge) => call(key, edge));
  }
}

async function sessionThatIsEnded(): Promise<void> {
  const token = (await untilDone(() => ask('POST', '/api/v1/auth/login', '', owner))).json.access_token;
  const profile = (edge: number) => ask('GET', '/api/v1/profile', token, undefined, { edge });
  await Promise.all(edges.map((_, edge) => profile(edge)));
  if (succeeded(await ask('POST', '/api/v1/auth/logout', token))) await watchRefusals('ended sessions', profile);
}

async function callEverywhere(key: string): Promise<void> {
  await Promise.all(edges.map((_, edge) => call(key, edge)));
}

/** Checks for a while, again and again, that nobody accepts it any more. */
async function watchRefusals(what: string, request: (edge: number) => Promise<Answer>): Promise<void> {
  count(what);
  const untilMs = performance.now() + watchMs;
  while (performance.now() < untilMs) {
    for (const answer of await Promise.all(edges.map((_, edge) => request(edge)))) {
      if (succeeded(answer)) problem(`${what} are served`);
    }
    await delay(30);
  }
}

async function call(key: string, edge: number): Promise<Answer> {
  const answer = await ask('POST', '/v1/chat/completions', key, chat, { edge });
  if (succeeded(answer)) answered.push(answer.requestId);
  return answer;
}

/** Its repeats are one job, however often its answer was lost. */
async function submitJob(key: string): Promise<void> {
  const headers = { 'idempotency-key': randomUUID() };
  const submit = () => ask('POST', '/v1/chat/completions', key, { ...chat, background: true }, { headers });
  jobs.push((await untilDone(submit)).json.id);
}

async function createKey(fields: object): Promise<Key> {
  return (await untilDone(() => ask('POST', '/api/v1/api-keys', session, fields))).json;
}

async function signIn(): Promise<void> {
  session = (await untilDone(() => ask('POST', '/api/v1/auth/login', '', owner))).json.access_token;
}

/** A request to an edge, by default any; status 0 if there was no answer. */
async function ask(
  method: string,
  path: string,
  token: string,
  body?: object,
  { edge = below(edges.length), headers = {} }: { edge?: number; headers?: Record<string, string> } = {},
): Promise<Answer> {
  try {
    const response = await fetch(edges[edge]! + path, {
      method,
      headers: {
        ...headers,
        ...(token !== '' && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(patienceMs),
    });
    const { status } = response;
    const text = await response.text();
    const json = text === '' ? null : JSON.parse(text);
    const requestId = response.headers.get('x-request-id')!;
    if (![200, 201, 202, 204, 401, 403, 429, 503, 504].includes(status)) {
      problem(`${method} ${path} ${status}`);
      print([text, ...(await linesAbout(requestId))].join('\n'));
    }
    return { status, json, text, requestId };
  } catch (error) {
    return { status: 0, json: null, text: String(error), requestId: '' };
  }
}

/** What the running parts have logged about a request. */
async function linesAbout(requestId: string): Promise<string[]> {
  await delay(1_000);
  return parts.flatMap(({ running }) => running.output.split('\n').filter((line) => line.includes(requestId)));
}

/** Retries until it succeeds; things created without an answer are left behind. */
function untilDone(request: () => Promise<Answer>): Promise<Answer> {
  const done = async (): Promise<Answer> => {
    const answer = await request();
    if (!succeeded(answer)) throw new Error(answer.text);
    return answer;
  };
  return waitFor(done, { description: 'success', timeoutMs: patienceMs });
}

/** Calls until the whole cap is spent: whatever failed, no room may be lost for longer than that of a killed edge. */
async function meet({ id, key }: Key): Promise<void> {
  const isMet = async (): Promise<boolean> => {
    await Promise.all(edges.map((_, edge) => call(key, edge)));
    return (await spentWith([id]))[0]! >= capUsd;
  };
  await waitFor(isMet, { description: 'a cap to be met', timeoutMs: capPatienceMs }).catch((error) =>
    problem(`${error}`),
  );
}

async function complete(job: string): Promise<void> {
  const isComplete = async (): Promise<boolean> =>
    (await ask('GET', `/api/v1/jobs/${job}`, session)).json?.status === 'completed';
  await waitFor(isComplete, { description: `job ${job} to complete`, timeoutMs: patienceMs }).catch((error) =>
    problem(`${error}`),
  );
}

/** What was spent with each key that has a cap, in USD. */
async function spentUnderCaps(): Promise<number[]> {
  const spent = await spentWith(capped.map(({ id }) => id));
  for (const usd of spent) if (usd > capUsd) problem(`${usd} USD spent under a cap of ${capUsd} USD`);
  return spent;
}

/** What was spent with each of these keys so far, in USD. */
async function spentWith(ids: readonly string[]): Promise<number[]> {
  const spent = await rows<{ usd: string }>(
    `select coalesce(sum(cost_nano_usd), 0) / 1e9 as usd from unnest($1::uuid[]) as capped (id)
      left join usage.events on api_key_id = capped.id group by capped.id`,
    [ids],
  );
  return spent.map(({ usd }) => Number(usd));
}

/** True once each answered call and each job is in usage once, and everything in usage is charged once. */
async function isAllCharged(): Promise<boolean> {
  const events = await rows<{ origin: string; charges: number }>(
    `select coalesce('job_' || replace(events.job_id::text, '-', ''), events.request_id) as origin, count(transactions.id)::int as charges
      from usage.events left join billing.transactions
      on transactions.tenant_id = events.tenant_id and usage_event_id = events.id
      where success group by events.id, events.job_id, events.request_id`,
    [],
  );
  const stored = new Set(events.map(({ origin }) => origin));
  if (stored.size < events.length) throw new Error('a call is in usage twice');
  const missing = [...answered, ...jobs].filter((origin) => !stored.has(origin)).length;
  const uncharged = events.filter(({ charges }) => charges !== 1).length;
  if (missing + uncharged > 0) throw new Error(`${missing} calls are not in usage, ${uncharged} not charged once`);
  return true;
}

async function rows<Row extends object>(text: string, values: unknown[]): Promise<Row[]> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

async function admin(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(process.execPath, ['services/cmd/admin.ts', ...args], {
    env: { ...process.env, ...env, DATA_DIR: join(folder, 'admin') },
  });
  return stdout.trim();
}

function count(what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1);
}

function problem(what: string): void {
  problems.set(what, (problems.get(what) ?? 0) + 1);
}
