import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { createLogger } from '#shared/logger.ts';
import { type StartedProcess, startProcess } from '../support/processes.ts';
import { load } from './load.ts';

// `npm run bench`: CPU of the gateway with all its duties against the least that Fastify and undici can do, side by side.
// CPU time of the process under test is what counts; the load generator and the upstream are other processes.

const rounds = Number(process.env.ROUNDS ?? 5);
const durationMs = Number(process.env.DURATION_MS ?? 3_000);

type Workload = {
  name: string;
  model: string;
  stream: boolean;
  connections: number;
  endsWith: string;
  unitsPerRequest: number;
  unit: string;
};
const workloads: Workload[] = [
  {
    name: 'small chat',
    model: 'small',
    stream: false,
    connections: 64,
    endsWith: '}',
    unitsPerRequest: 1,
    unit: 'request',
  },
  {
    name: 'streamed chat, paced',
    model: 'paced',
    stream: true,
    connections: 100,
    endsWith: 'data: [DONE]',
    unitsPerRequest: 100,
    unit: 'chunk',
  },
  {
    name: 'streamed chat, in bursts',
    model: 'bursts',
    stream: true,
    connections: 16,
    endsWith: 'data: [DONE]',
    unitsPerRequest: 100,
    unit: 'chunk',
  },
];

const prompt = 'The quick brown fox jumps over the lazy dog. '.repeat(16);
const bodyOf = ({ model, stream }: Workload): string =>
  JSON.stringify({
    model,
    stream,
    temperature: 0.7,
    messages: [
      { role: 'system', content: 'Answer briefly.' },
      { role: 'user', content: prompt },
    ],
  });

/** User and system CPU time of a process in milliseconds; clock ticks are 10 ms. */
function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

const residentMiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))![1]) / 1024;

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

const dataDir = mkdtempSync(join(tmpdir(), 'gateway-bench-'));
const logger = createLogger({ level: 'error', name: 'bench' });
const postgres = await startEmbeddedPostgres({ dataDir: join(dataDir, 'database'), logger });
const started: StartedProcess[] = [];
try {
  const upstream = startProcess({ script: 'test/bench/upstream.ts' });
  started.push(upstream);
  const upstreamUrl = `http://127.0.0.1:${await upstream.waitForPort(/port (\d+)/)}`;
  const baseline = startProcess({ script: 'test/bench/baseline.ts', args: [upstreamUrl] });
  started.push(baseline);
  const baselineUrl = `http://127.0.0.1:${await baseline.waitForPort(/port (\d+)/)}`;

  const password = 'Correct-horse-1';
  const env = {
    PORT: '0',
    RPC_PORT: '0',
    DATA_DIR: dataDir,
    DATABASE_URL: postgres.url,
    BOOTSTRAP_PASSWORD: password,
    UPSTREAM_BASE_URL: `${upstreamUrl}/v1`,
    LOG_LEVEL: 'error',
  };
  const listening = /API and portal\s+http:\/\/127\.0\.0\.1:(\d+)/;
  const firstStartMs = performance.now();
  const first = startProcess({ script: 'services/cmd/all.ts', env });
  await first.waitForPort(listening, 60_000);
  const firstStart = performance.now() - firstStartMs;
  first.signal('SIGTERM');
  await first.exited(30_000);
  const secondStartMs = performance.now();
  const gateway = startProcess({ script: 'services/cmd/all.ts', env });
  started.push(gateway);
  const url = `http://127.0.0.1:${await gateway.waitForPort(listening, 60_000)}`;
  const secondStart = performance.now() - secondStartMs;
  const idleMiB = residentMiB(gateway.pid);
  const token = await makeKey(url, password, postgres.url);

  process.stdout.write(
    `start ${Math.round(firstStart)} ms, again ${Math.round(secondStart)} ms, ${Math.round(idleMiB)} MiB at rest\n`,
  );
  const rows = [];
  for (const workload of workloads) {
    const contenders = [
      { name: 'baseline', url: baselineUrl, pid: baseline.pid, costs: [] as number[] },
      { name: 'gateway', url, pid: gateway.pid, costs: [] as number[] },
    ];
    for (let round = -1; round < rounds; round++) {
      for (const contender of contenders) {
        const before = cpuMs(contender.pid);
        const { requests, wrong } = await load({
          url: contender.url,
          path: '/v1/chat/completions',
          token,
          body: bodyOf(workload),
          connections: workload.connections,
          durationMs,
          endsWith: workload.endsWith,
        });
        if (wrong > 0) throw new Error(`${contender.name} answered ${wrong} of ${requests} requests wrongly`);
        // The first round warms up.
        if (round >= 0)
          contender.costs.push(((cpuMs(contender.pid) - before) * 1000) / (requests * workload.unitsPerRequest));
      }
    }
    const [base, own] = contenders.map(({ costs }) => costs);
    const ratios = own!.map((cost, round) => cost / base![round]!);
    rows.push({
      workload: workload.name,
      'baseline µs': median(base!).toFixed(1),
      'gateway µs': median(own!).toFixed(1),
      per: workload.unit,
      ratio: `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})`,
    });
  }
  process.stdout.write(
    '\n| Workload | Fastify + undici dispatch, µs | Gateway, µs | per | Ratio: median (range) |\n|---|---|---|---|---|\n',
  );
  for (const row of rows) process.stdout.write(`| ${Object.values(row).join(' | ')} |\n`);
  process.stdout.write(
    `\nStart on an empty database ${Math.round(firstStart)} ms, second start ${Math.round(secondStart)} ms, `,
  );
  process.stdout.write(
    `resident ${Math.round(idleMiB)} MiB at rest and ${Math.round(residentMiB(gateway.pid))} MiB after the load.\n`,
  );
} finally {
  for (const one of started) await one.kill();
  await postgres.stop();
  rmSync(dataDir, { recursive: true, force: true });
}

/** A key with scopes, allowlists and limits too high to meet: every duty is on. */
async function makeKey(url: string, password: string, databaseUrl: string): Promise<string> {
  const post = async (path: string, body: unknown, session = ''): Promise<Record<string, string>> => {
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(session && { authorization: `Bearer ${session}` }) },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
    return (await response.json()) as Record<string, string>;
  };
  const { access_token: session } = await post('/api/v1/auth/login', { email: 'owner@example.com', password });
  const { key, id } = await post(
    '/api/v1/api-keys',
    { name: 'bench', model_allowlist: ['small', 'paced', 'bursts'], ip_allowlist: ['127.0.0.0/8'] },
    session,
  );
  // Written before the key's first use, so that no edge remembers the plan's limits.
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query(
    'update keys.keys set requests_per_minute = 1e9, tokens_per_minute = 4e9, concurrent_requests = 1e6 where id = $1',
    [id],
  );
  await client.end();
  return key!;
}
