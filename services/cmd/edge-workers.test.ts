import { execFile } from 'node:child_process';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { closeWhatItWasHanded } from './edge-workers.ts';

/** Listens, and starts a process that keeps the worker's channel open (its descriptor 3) after the worker's death. */
const workerCode = `
import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
const { pid } = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: ['ignore', 'ignore', 'ignore', 3] });
const server = createServer().listen(0, '127.0.0.1', () => process.send({ port: server.address().port, holder: pid }));
`;

test('a connection handed to a worker is closed after its death, even if that is known before the end of its channel', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-edge-workers-'));
  const exec = join(folder, 'worker.mjs');
  writeFileSync(exec, workerCode);
  cluster.setupPrimary({ exec, execArgv: [] });
  const worker = cluster.fork();
  const child = worker.process;
  try {
    const [{ port, holder }] = await once(worker, 'message');
    const send = child.send.bind(child) as (...message: unknown[]) => boolean;
    const handed = new Promise<void>((resolve) => {
      child.send = (...message: unknown[]) => {
        resolve();
        return send(...message);
      };
    });
    closeWhatItWasHanded(worker);
    child.kill('SIGSTOP');
    const client = connect(port, '127.0.0.1').on('error', () => {});
    await handed;
    child.kill('SIGKILL');
    await once(worker, 'exit');
    expect(worker.isConnected()).toBe(true);
    process.kill(holder, 'SIGKILL');
    await once(client.resume(), 'close');
  } finally {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true });
  }
});

/**
 * Starts two workers, ends them, and prints how many run once two do again: to start the first anew there are no free descriptors, and for
 * the second no memory.
 */
const primaryCode = `
import cluster from 'node:cluster';
import { closeSync, openSync } from 'node:fs';
import { startEdgeWorkers } from '${import.meta.resolve('./edge-workers.ts')}';
let forks = 0;
let ready = 0;
let begunAt;
const without = (work) => {
  const taken = [];
  try {
    for (;;) taken.push(openSync('/dev/null'));
  } catch {
    return work();
  } finally {
    taken.forEach(closeSync);
  }
};
const workers = await startEdgeWorkers({
  cluster: {
    setupPrimary: () => cluster.setupPrimary({ exec: process.argv[2], execArgv: [] }),
    fork(env) {
      forks += 1;
      begunAt = env.CLOCK;
      if (forks === 3) return without(() => cluster.fork(env));
      if (forks === 4) throw new Error('spawn ENOMEM');
      return cluster.fork(env);
    },
  },
  env: { host: '127.0.0.1', port: 0, workers: 2, keyPeppers: [], serviceSecrets: [], clock: { now: () => Date.UTC(2030, 0, forks) } },
  logger: { error() {} },
  shortLifeMs: 50,
});
cluster.on('message', async (_worker, message) => {
  if (message === 'ready') ready += 1;
  if (ready < 2) return;
  await workers.close(0);
  console.log(forks, begunAt);
  process.exit(0);
});
for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGKILL');
`;

test('workers that cannot be started anew, for lack of descriptors or of memory, are started once there are some, and go on with the time of CLOCK', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gateway-edge-workers-'));
  const [primary, worker] = [join(folder, 'primary.mjs'), join(folder, 'worker.mjs')];
  writeFileSync(primary, primaryCode);
  writeFileSync(worker, "process.send('ready'); setInterval(() => {}, 1_000);");
  try {
    const command = ['-c', 'ulimit -n 100; exec "$@"', 'sh', process.execPath, primary, worker];
    const { stdout } = await promisify(execFile)('sh', command, { timeout: 10_000 });
    expect(stdout).toBe('6 2030-01-05T00:00:00.000Z\n');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
