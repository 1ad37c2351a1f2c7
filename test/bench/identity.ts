/*
 * What sign-ins and invented keys cost everyone else: `node test/bench/identity.ts [seconds] [keys] [people]`, by default 8 seconds a
 * round, 1,000,000 keys, and one person signing in after the other. The gateway and its Postgres run in separate processes.
 * - p99 of chat completions with and without people signing in (argon2id), in alternating rounds.
 * - Memory of the gateway's process and transactions of its database under a flood of nonexistent keys with a valid checksum.
 */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { Pool } from 'undici';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { makeKeySecret } from '#shared/key-secret.ts';
import { createLogger } from '#shared/logger.ts';
import { freePort } from '../support/free-port.ts';

const roundMs = Number(process.argv[2] ?? 8) * 1_000;
const keyCount = Number(process.argv[3] ?? 1_000_000);
const rounds = 5;
const connections = 8;
/** Look-ups are gathered for 20 ms, so with fewer connections this would take most of an hour. */
const floodConnections = 256;
const signingInAtOnce = Number(process.argv[4] ?? 1);
const credentials = { email: 'owner@example.com', password: 'Correct-horse-1' };
const print = (line: string) => process.stdout.write(`${line}\n`);

const folder = mkdtempSync(join(tmpdir(), 'mg-bench-identity-'));
const logger = createLogger({ level: 'error', name: 'bench' });
const postgres = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres'), logger });
const [port, rpcPort] = [await freePort(), await freePort()];
const gateway = spawn(process.execPath, ['services/cmd/all.ts'], {
  env: {
    PATH: process.env.PATH,
    PORT: String(port),
    RPC_PORT: String(rpcPort),
    DATA_DIR: join(folder, 'gateway'),
    DATABASE_URL: postgres.url,
    BOOTSTRAP_EMAIL: credentials.email,
    BOOTSTRAP_PASSWORD: credentials.password,
    LOG_LEVEL: 'error',
  },
  stdio: ['ignore', 'ignore', 'inherit'],
});
const pool = new Pool(`http://127.0.0.1:${port}`, {
  connections: Math.max(floodConnections, connections + signingInAtOnce),
});

try {
  await ready();
  const { access_token: token } = (await call('POST', '/api/v1/auth/login', '', credentials)).json;
  const { key } = (await call('POST', '/api/v1/api-keys', token, { name: 'bench' })).json;
  const { data } = (await call('GET', '/api/v1/admin/organizations', token)).json;
  // Measures the load of others, not the plan's limits.
  const limits = { requests_per_minute: 10_000_000, tokens_per_minute: 2_000_000_000, concurrent_requests: 1_000 };
  await call('PATCH', `/api/v1/admin/organizations/${data[0].id}`, token, { rate_limits: limits });
  await measureSignIns(key);
  if (keyCount > 0) await measureFlood();
} finally {
  await pool.close();
  const ended = new Promise((resolve) => gateway.once('exit', resolve));
  gateway.kill('SIGTERM');
  await ended;
  await postgres.stop();
  rmSync(folder, { recursive: true, force: true });
}

async function measureSignIns(key: string): Promise<void> {
  await load(key, 2_000, false);
  const quiet: number[] = [];
  const busy: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    const without = await load(key, roundMs, false);
    const during = await load(key, roundMs, true);
    quiet.push(without.p99Ms);
    busy.push(during.p99Ms);
    print(
      `round ${round}: p99 ${without.p99Ms.toFixed(1)} ms at ${without.perSecond.toFixed(0)} a second; ` +
        `${during.p99Ms.toFixed(1)} ms at ${during.perSecond.toFixed(0)} with ${during.signInsPerSecond.toFixed(1)} sign-ins a second`,
    );
  }
  print(`p99 with sign-ins ÷ p99 without: ${(median(busy) / median(quiet)).toFixed(2)} (promised: at most 1.5)`);
}

/** Chat completions at a steady pace, below what the machine can do, so that the p99 shows waiting and not overload. */
async function load(key: string, ms: number, withSignIns: boolean) {
  const latenciesMs: number[] = [];
  const untilMs = performance.now() + ms;
  const body = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  let signIns = 0;
  const worker = async () => {
    while (performance.now() < untilMs) {
      const startedMs = performance.now();
      const { status, text } = await call('POST', '/v1/chat/completions', key, body);
      if (status !== 200) throw new Error(`a chat completion answered ${status}: ${text}`);
      latenciesMs.push(performance.now() - startedMs);
      await delay(15);
    }
  };
  const signer = async () => {
    while (performance.now() < untilMs) {
      const { status, text } = await call('POST', '/api/v1/auth/login', '', credentials);
      if (status !== 200) throw new Error(`a sign-in answered ${status}: ${text}`);
      signIns += 1;
    }
  };
  const signers = withSignIns ? Array.from({ length: signingInAtOnce }, signer) : [];
  await Promise.all([...Array.from({ length: connections }, worker), ...signers]);
  latenciesMs.sort((one, other) => one - other);
  const p99Ms = latenciesMs[Math.floor(latenciesMs.length * 0.99)]!;
  return { p99Ms, perSecond: (latenciesMs.length * 1_000) / ms, signInsPerSecond: (signIns * 1_000) / ms };
}

async function measureFlood(): Promise<void> {
  const client = new pg.Client({ connectionString: postgres.url });
  await client.connect();
  const transactions = async (): Promise<number> =>
    Number((await client.query('select sum(xact_commit) as count from pg_stat_database')).rows[0].count);
  const tenth = Math.ceil(keyCount / 10);
  await flood(tenth);
  const before = { transactions: await transactions(), memory: residentMebibytes(), atMs: performance.now() };
  await flood(keyCount - tenth);
  await delay(1_500);
  const seconds = (performance.now() - before.atMs) / 1_000;
  const after = { transactions: await transactions(), memory: residentMebibytes() };
  await client.end();
  const count = keyCount - tenth;
  print(
    `${count} keys that nobody has, at ${(count / seconds).toFixed(0)} a second: ` +
      `${((after.transactions - before.transactions) / count).toFixed(3)} transactions for each (all other work included), ` +
      `memory ${before.memory} → ${after.memory} MiB`,
  );
}

async function flood(count: number): Promise<void> {
  let left = count;
  const worker = async () => {
    while (left > 0) {
      left -= 1;
      const { status } = await call('GET', '/v1/models', makeKeySecret(randomBytes(32)));
      if (status !== 401 && status !== 503) throw new Error(`an invented key was answered ${status}`);
    }
  };
  await Promise.all(Array.from({ length: floodConnections }, worker));
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
type Answer = { status: number; text: string; json: any };

async function call(method: string, path: string, token: string, body?: unknown): Promise<Answer> {
  const answer = await pool.request({
    method: method as 'GET',
    path,
    headers: {
      ...(token !== '' && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    body: body === undefined ? null : JSON.stringify(body),
  });
  const text = await answer.body.text();
  return { status: answer.statusCode, text, json: text.startsWith('{') ? JSON.parse(text) : undefined };
}

async function ready(): Promise<void> {
  for (const untilMs = performance.now() + 60_000; performance.now() < untilMs; await delay(200)) {
    const status = await call('GET', '/readyz', '').then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) return;
  }
  throw new Error('the gateway did not get ready within a minute');
}

function residentMebibytes(): number {
  const [, kibibytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${gateway.pid}/status`, 'utf8'))!;
  return Math.round(Number(kibibytes) / 1024);
}

function median(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)]!;
}
