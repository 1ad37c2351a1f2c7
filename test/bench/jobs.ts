/*
 * Background jobs in figures: `node test/bench/jobs.ts [jobs]`, by default 3,000 to be drained. A gateway on an embedded Postgres, whose
 * sandbox answers, all in one process; the load generator is another. Each figure is printed next to its goal.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { Registry } from 'prom-client';
import { Pool } from 'undici';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { serviceNames } from '#shared/service-names.ts';
import { bootstrap } from '../../services/cmd/bootstrap.ts';
import { startGateway } from '../../services/cmd/gateway.ts';
import { openJobsDatabase, workerDeps } from '../../services/jobs/fixtures/test-queue.ts';
import { startJobWorker } from '../../services/jobs/workers/start.ts';
import { waitFor } from '../support/wait-for.ts';
import type { Load, LoadResult } from './generator.ts';
import { cpuMsOfTree } from './machine.ts';

const jobsToDrain = Number(process.argv[2] ?? 3_000);
const submissionsPerSecond = 200;
const submissionSeconds = 10;
const warmUpSeconds = 15;
const idleStarts = 40;
const idleSeconds = 15;
/** The turn of those who take jobs (services/jobs/db/take-jobs.ts): holding it stops the queue. */
const takersTurn = `hashtextextended('jobs to take', 0)`;

const print = (line: string) => process.stdout.write(`${line}\n`);
const quantile = (values: number[], share: number): number =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))]!;
const ms = (value: number) => `${value.toFixed(1)} ms`;

const dataDir = mkdtempSync(join(tmpdir(), 'bench-jobs-'));
const logger = createLogger({ level: 'error', name: 'bench' });
const postgres = await startEmbeddedPostgres({ dataDir, logger });
/**
 * CPU time so far, in milliseconds: of this process, which is client and gateway, and of Postgres. A busy machine does not change it much.
 */
const cpuMs = (): { here: number; postgres: number } => {
  const { user, system } = process.cpuUsage();
  return { here: (user + system) / 1000, postgres: cpuMsOfTree(postgres.pid()) };
};
const cpuOfJob = (before: ReturnType<typeof cpuMs>, jobs: number): string => {
  const after = cpuMs();
  return `${ms((after.here - before.here) / jobs)} here and ${ms((after.postgres - before.postgres) / jobs)} in Postgres`;
};
const database = new pg.Client(postgres.url);
await database.connect();
try {
  await withGateway();
  await idleWorker();
} finally {
  await database.end();
  await postgres.stop();
  rmSync(dataDir, { recursive: true, force: true });
}

async function withGateway(): Promise<void> {
  const owner = { email: 'owner@example.com', password: 'Correct-horse-1' };
  const env = readEnv({
    PORT: '0',
    RPC_PORT: '0',
    DATA_DIR: dataDir,
    DATABASE_URL: postgres.url,
    BOOTSTRAP_EMAIL: owner.email,
    BOOTSTRAP_PASSWORD: owner.password,
  });
  const gateway = await startGateway(env, { services: serviceNames, edge: true, worker: true }, logger);
  await bootstrap(env, gateway.switchboard, logger);
  const client = new Pool(gateway.url!, { connections: 32 });
  const call = async (method: string, path: string, token: string, body?: unknown) => {
    const response = await client.request({
      method: method as 'POST',
      path,
      headers: { 'content-type': 'application/json', ...(token !== '' && { authorization: `Bearer ${token}` }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.body.text();
    if (response.statusCode >= 300) throw new Error(`${method} ${path} answered ${response.statusCode}: ${text}`);
    // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    return JSON.parse(text) as any;
  };
  const { access_token: session } = await call('POST', '/api/v1/auth/login', '', owner);
  const { id: keyId, key } = await call('POST', '/api/v1/api-keys', session, { name: 'bench' });
  const unlimited = { requests_per_minute: 1e7, tokens_per_minute: 1e9, concurrent_requests: 1e6 };
  await call('PUT', `/api/v1/admin/keys/${keyId}/rate-limits`, session, unlimited);
  const chat = {
    model: 'sandbox-chat',
    max_tokens: 8,
    background: true,
    messages: [{ role: 'user', content: 'Hello' }],
  };
  const submit = () => call('POST', '/v1/chat/completions', key, chat);
  const body = JSON.stringify(chat);
  const submitOnTime = (seconds: number) =>
    generate({
      port: Number(new URL(gateway.url!).port),
      requests: [{ path: '/v1/chat/completions', body, expected: { status: 202, text: '"id":"job_' } }],
      headers: '',
      tokens: [key],
      connections: 32,
      rate: submissionsPerSecond,
      seconds,
    });
  const drained = (timeoutMs: number) =>
    waitFor(
      async () => {
        const { rows } = await database.query('select 1 from jobs.jobs where status in (1, 2) limit 1');
        return rows.length === 0;
      },
      { description: 'the end of all jobs', timeoutMs, intervalMs: 50 },
    );
  for (let number = 0; number < 200; number += 1) await submit();
  await drained(30_000);

  await database.query('delete from jobs.jobs');
  for (let number = 0; number < idleStarts; number += 1) {
    await submit();
    await drained(10_000);
  }
  const { rows: waits } = await database.query<{ ms: number }>(
    'select extract(epoch from started_at - created_at)::float8 * 1000 as ms from jobs.jobs',
  );
  const startMs = waits.map((row) => row.ms);
  print(
    `start when idle        p50 ${ms(quantile(startMs, 0.5))}, p99 ${ms(quantile(startMs, 0.99))} (promised: 50 ms)`,
  );

  await submitOnTime(warmUpSeconds);
  await drained(60_000);
  const before = cpuMs();
  const { latenciesMs, latenessMs, requests, elapsedMs } = await submitOnTime(submissionSeconds);
  const rate = Math.round(requests / (elapsedMs / 1000));
  print(
    `submit at ${rate}/s        p50 ${ms(quantile(latenciesMs, 0.5))}, p99 ${ms(quantile(latenciesMs, 0.99))} (promised: p50 5 ms); the generator was late by p99 ${ms(quantile(latenessMs, 0.99))}`,
  );
  await drained(60_000);
  print(`CPU of a job           ${cpuOfJob(before, requests)}: submission and run`);

  await database.query('delete from jobs.jobs');
  await database.query(`select pg_advisory_lock(${takersTurn})`);
  let submitted = 0;
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      while (submitted < jobsToDrain) {
        submitted += 1;
        await submit();
      }
    }),
  );
  const beforeDrain = cpuMs();
  await database.query(`select pg_advisory_unlock(${takersTurn})`);
  await drained(120_000);
  const drainCpu = cpuOfJob(beforeDrain, jobsToDrain);
  const { rows } = await database.query<{ count: number; seconds: number }>(
    `select count(*)::int as count, extract(epoch from max(ended_at) - min(started_at))::float8 as seconds
      from jobs.jobs where status = 3`,
  );
  const { count, seconds } = rows[0]!;
  print(`drain of ${count} jobs     ${Math.round(count / seconds)}/s (promised: 500/s)`);
  print(`CPU of a drained job   ${drainCpu}`);
  await client.close();
  await gateway.close();
}

/** Sends requests from another process, so that it takes no time from this one. */
async function generate(load: Load): Promise<LoadResult> {
  const generator = fork(fileURLToPath(new URL('generator.ts', import.meta.url)), { execArgv: [] });
  try {
    generator.send(load);
    const [answer] = (await once(generator, 'message')) as [{ result: LoadResult } | { error: string }];
    if ('error' in answer) throw new Error(answer.error);
    if (answer.result.overloaded)
      throw new Error(`${load.rate} submissions a second are more than this machine takes now`);
    if (answer.result.wrong > 0) throw new Error(`a submission was answered:\n${answer.result.wrongAnswer}`);
    return answer.result;
  } finally {
    generator.kill();
  }
}

/** Counts everything that an idle worker sends to Postgres. */
async function idleWorker(): Promise<void> {
  await database.query('delete from jobs.jobs');
  const jobs = await openJobsDatabase(postgres.url);
  const deps = workerDeps(jobs, () => {});
  const worker = await startJobWorker({ ...deps, connection: postgres.url, registry: new Registry(), drainMs: 0 });
  await delay(2_000);
  const send = pg.Client.prototype.query;
  let asked = 0;
  pg.Client.prototype.query = function counted(this: pg.Client, ...args: unknown[]) {
    asked += 1;
    return send.apply(this, args as never) as never;
  } as never;
  await delay(idleSeconds * 1000);
  pg.Client.prototype.query = send;
  print(`idle worker            ${(asked / idleSeconds).toFixed(2)} statements a second (promised: 1)`);
  await worker.close();
  await jobs.close();
}
