import cluster from 'node:cluster';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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
