// `node --expose-gc test/bench/connections.ts`: the memory that the gateway holds for open connections. The gateway runs in this process,
// its clients and upstream in another. Only what remains after a collection counts, not garbage.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readEnv } from '#shared/env.ts';
import { createLogger } from '#shared/logger.ts';
import { serviceNames } from '#shared/service-names.ts';
import { bootstrap } from '../../services/cmd/bootstrap.ts';
import { startGateway } from '../../services/cmd/gateway.ts';
import { waitFor } from '../support/wait-for.ts';
import type { Command, Report } from './connections-peer.ts';

const count = Number(process.env.CONNECTIONS ?? 1_000);
const print = (line: string): void => void process.stdout.write(`${line}\n`);
const collectGarbage = globalThis.gc;
if (collectGarbage === undefined) throw new Error('Start it with node --expose-gc.');

const peer: ChildProcess = fork(new URL('./connections-peer.ts', import.meta.url));
let poured = 0;
peer.on('message', (report: Report) => {
  if (report.kind === 'poured') poured = report.bytes;
});
const reported = async (kind: Report['kind']): Promise<Report> => {
  for (;;) {
    const [report] = (await once(peer, 'message')) as [Report];
    if (report.kind === kind) return report;
  }
};
const tell = async (command: Command): Promise<void> => {
  const done = reported('done');
  peer.send(command);
  await done;
};
const upstream = (await reported('upstream')) as Extract<Report, { kind: 'upstream' }>;

const dataDir = mkdtempSync(join(tmpdir(), 'gateway-bench-'));
const owner = { email: 'owner@example.com', password: 'Correct-horse-1' };
const env = readEnv({
  PORT: '0',
  RPC_PORT: '0',
  DATA_DIR: dataDir,
  BOOTSTRAP_EMAIL: owner.email,
  BOOTSTRAP_PASSWORD: owner.password,
  UPSTREAM_BASE_URL: upstream.url,
  LOG_LEVEL: 'error',
});
const logger = createLogger({ level: env.logLevel, name: 'bench' });
const gateway = await startGateway(env, { services: serviceNames, edge: true, worker: true }, logger);
await bootstrap(env, gateway.switchboard, logger);
const url = gateway.url!;

async function call(method: string, path: string, token: string, body: object) {
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
    body: JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${await response.text()}`);
  return (await response.json()) as Record<string, string>;
}
const { access_token: session } = await call('POST', '/auth/login', 'none', owner);
const { id, key } = await call('POST', '/api-keys', session!, { name: 'connections' });
await call('PUT', `/admin/keys/${id}/rate-limits`, session!, {
  requests_per_minute: 1_000_000,
  tokens_per_minute: 1_000_000_000,
  concurrent_requests: 100_000,
});

/** Bytes held by objects and by the buffers behind them. */
async function held(): Promise<number> {
  for (let round = 0; round < 3; round++) {
    collectGarbage!();
    await delay(100);
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

async function perConnection(name: string, kind: 'open-streams' | 'open-sockets'): Promise<void> {
  // The first ones pay for what stays: pools, compiled code, caches.
  await tell({ kind, url, key: key!, count: 50 });
  await tell({ kind: 'close' });
  await delay(2_000);
  const before = await held();
  const residentBefore = process.memoryUsage().rss;
  await tell({ kind, url, key: key!, count });
  await delay(3_000);
  const grown = (await held()) - before;
  const resident = process.memoryUsage().rss - residentBefore;
  print(
    `${count} ${name}: ${(grown / count / 1024).toFixed(1)} KiB held for each (resident ${(resident / count / 1024).toFixed(1)} KiB)`,
  );
  await tell({ kind: 'close' });
  await delay(2_000);
}

try {
  await waitFor(
    async () => {
      const response = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
      return (await response.text()).includes('"slow"');
    },
    { description: 'the models of the upstream', timeoutMs: 10_000 },
  );
  await perConnection('slow streams', 'open-streams');
  await perConnection('realtime sessions', 'open-sockets');

  const before = await held();
  const residentBefore = process.memoryUsage().rss;
  await tell({ kind: 'open-stalled', url, key: key! });
  let last = -1;
  await waitFor(
    () => {
      const isStill = poured > 0 && poured === last;
      last = poured;
      return isStill;
    },
    { description: 'the upstream to stand still', intervalMs: 1_500, timeoutMs: 60_000 },
  );
  const grown = (await held()) - before;
  const resident = process.memoryUsage().rss - residentBefore;
  print(
    `a reader that stops in a stream of 1 GiB: ${(grown / 1024 ** 2).toFixed(1)} MiB held (resident ${(resident / 1024 ** 2).toFixed(1)} MiB); ` +
      `the upstream had written ${(poured / 1024 ** 2).toFixed(1)} MiB when it was no longer read`,
  );
} finally {
  peer.kill();
  await gateway.close();
  rmSync(dataDir, { recursive: true, force: true });
}
