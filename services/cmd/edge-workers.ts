import type { Cluster, Worker } from 'node:cluster';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Env } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { StartError } from '#shared/start-error.ts';
import { serviceNames } from './service-names.ts';

export type EdgeWorkers = {
  /** Where all of them listen. */
  url: string;
  close(): Promise<void>;
};

/** A worker that dies sooner than this after its start is not simply replaced: something is wrong with all of them. */
const shortLifeMs = 2_000;

/**
 * Starts WORKERS edges that share the port, each with its own journal and feeds, in front of the services of this process.
 * One that dies is replaced; its journal is adopted by the others.
 */
export async function startEdgeWorkers(options: {
  cluster: Cluster;
  env: Env;
  rpcUrl: string;
  logger: Logger;
}): Promise<EdgeWorkers> {
  const { cluster, env, rpcUrl, logger } = options;
  let closing = false;
  cluster.setupPrimary({ exec: fileURLToPath(new URL('./edge.ts', import.meta.url)) });
  const fork = (): Worker =>
    cluster.fork({
      RPC_URLS: serviceNames.map((name) => `${name}=${rpcUrl}`).join(','),
      KEY_PEPPER: env.keyPeppers.map(({ version, secret }) => `${version}:${secret}`).join(','),
      SERVICE_SECRET: env.serviceSecrets.join(','),
      // The primary's own address, which PORT=0 would not give.
      PUBLIC_URL: env.publicUrl,
    });

  const listening = Array.from({ length: env.workers }, async () => {
    const worker = fork();
    const ended = once(worker, 'exit').then(() => {
      throw new StartError('An edge worker could not start; its own line above says why.');
    });
    // What edge.ts says once it should get traffic.
    const ready = new Promise<void>((resolve) => worker.on('message', (message) => message === 'ready' && resolve()));
    const [address] = await Promise.race([once(worker, 'listening'), ended]);
    await Promise.race([ready, ended]);
    return address as { address: string; port: number };
  });
  const [address] = await Promise.all(listening);

  const startedMs = new Map<number, number>();
  cluster.on('exit', (worker, code, signal) => {
    if (closing) return;
    logger.error({ worker: worker.process.pid, code, signal }, 'an edge worker died');
    const livedMs = performance.now() - (startedMs.get(worker.id) ?? 0);
    const replace = (): void => {
      if (!closing) startedMs.set(fork().id, performance.now());
    };
    if (livedMs < shortLifeMs) setTimeout(replace, shortLifeMs);
    else replace();
  });

  return {
    url: `http://${address!.address}:${address!.port}`,
    async close() {
      closing = true;
      const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker !== undefined);
      await Promise.all(
        workers.map(async (worker) => {
          const exited = once(worker, 'exit');
          worker.process.kill('SIGTERM');
          await exited;
        }),
      );
    },
  };
}
