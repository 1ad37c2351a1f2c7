import type { Cluster, Worker } from 'node:cluster';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { systemClock } from '#shared/clock.ts';
import { type Env, originAt } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { memoryBytes } from '#shared/memory-share.ts';
import { serviceNames } from '#shared/service-names.ts';
import { StartError } from '#shared/start-error.ts';
import { listening } from './base.ts';

type EdgeWorkers = {
  /** Where all of them listen. */
  url: string;
  /** Makes each close as it would by itself, after its SHUTDOWN_DELAY_SECONDS unless `delayMs` is 0, and waits for their ends. */
  close(delayMs: number): Promise<void>;
};

/** Checks once, before the workers try, whether the port can be listened on. Returns it; for PORT=0 the one that all of them will use. */
async function tryListening({ host, port }: Env): Promise<number> {
  const server = createServer().listen({ host, port });
  await once(server, 'listening');
  const { port: found } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return found;
}

/** The message by which Node's cluster hands a worker a connection, which the worker answers with `ack`. */
type Handover = { act?: string; seq?: number; ack?: number };

/**
 * Node waits for a worker's answer to a connection it was handed, forever if the worker dies first: the client would hear nothing. So the
 * primary's copy of such a connection is closed as if the worker had accepted it; its client then sees what all clients of that worker see.
 */
export function closeWhatItWasHanded(worker: Worker): void {
  const child = worker.process;
  // Without a free descriptor there is neither a process nor a channel to it.
  if (child.send === undefined) return;
  const handed = new Set<number>();
  const send = child.send.bind(child) as (...message: unknown[]) => boolean;
  child.send = (...message: unknown[]) => {
    const { act, seq } = message[0] as Handover;
    if (act === 'newconn') handed.add(seq!);
    return send(...message);
  };
  child.on('internalMessage', ({ ack }: Handover) => handed.delete(ack!));
  const close = (): void => {
    for (const ack of handed) child.emit('internalMessage', { cmd: 'NODE_CLUSTER', ack, accepted: true });
  };
  // While a handover is under way, Node does not say that a dead worker's channel has ended, and would hand the worker another connection.
  const sayThatChannelEnded = (): void => {
    if (worker.isConnected()) setTimeout(sayThatChannelEnded, 10);
    else child.emit('disconnect');
  };
  worker.on('exit', sayThatChannelEnded).on('disconnect', close);
}

/**
 * V8 lets the heap of each process grow to half of the machine's memory, whatever other processes there are. A worker's heap may grow to
 * half of the worker's share, `bytes`, within V8's own bounds, unless the operator has chosen a limit.
 */
function heapLimit(bytes: number): string[] {
  const chosen = [...process.execArgv, process.env.NODE_OPTIONS].some((option) =>
    /max.(heap|old.space).size/.test(option ?? ''),
  );
  const mebibytes = Math.floor(bytes / 2 / 1024 ** 2);
  return chosen ? [] : [`--max-old-space-size=${Math.max(256, Math.min(mebibytes, 4_096))}`];
}

type Life = { worker: Worker; startedMs: number; exited: Promise<{ code: number | null; signal: string | null }> };

/** A worker that dies sooner than this after its start is not replaced at once: something is wrong with all of them. */
const shortLifeMsDefault = 2_000;

/**
 * Starts WORKERS edges that share the port, each with its own journal and feeds, in front of the services of this process. One that dies is
 * replaced; the others adopt its journal.
 *
 * @throws StartError, with none of them left running, when one cannot start.
 */
export async function startEdgeWorkers(options: {
  cluster: Cluster;
  env: Env;
  rpcUrl: string;
  logger: Logger;
  shortLifeMs?: number;
}): Promise<EdgeWorkers> {
  const { cluster, env, rpcUrl, logger, shortLifeMs = shortLifeMsDefault } = options;
  const port = await listening('PORT', env.port, tryListening(env));
  const closing = new AbortController();
  const alive = new Set<Life>();
  cluster.setupPrimary({
    exec: fileURLToPath(new URL('./edge.ts', import.meta.url)),
    execArgv: [...process.execArgv, ...heapLimit(memoryBytes(env.workers))],
  });

  const fork = (): Life => {
    const worker = cluster.fork({
      PORT: String(port),
      RPC_URLS: serviceNames.map((name) => `${name}=${rpcUrl}`).join(','),
      KEY_PEPPER: env.keyPeppers.map(({ version, secret }) => `${version}:${secret}`).join(','),
      SERVICE_SECRET: env.serviceSecrets.join(','),
      // What the primary speaks TLS with, whatever has been written to the files since.
      ...(env.rpcTls && { RPC_TLS_CERT: env.rpcTls.cert, RPC_TLS_KEY: env.rpcTls.key }),
      // The primary's actual address, which PORT=0 would not give.
      PUBLIC_URL: env.publicUrl,
      // A later one goes on with the time of the others.
      CLOCK: env.clock === systemClock ? 'system' : new Date(env.clock.now()).toISOString(),
    });
    const exited: Life['exited'] = new Promise((resolve) => {
      worker.once('exit', (code, signal) => resolve({ code, signal }));
      worker.on('error', (err) => {
        logger.error(
          { err, worker: worker.process.pid },
          'an edge worker could not be started, or not be sent a message',
        );
        if (worker.process.pid === undefined) resolve({ code: null, signal: null });
      });
    });
    closeWhatItWasHanded(worker);
    const life = { worker, startedMs: performance.now(), exited };
    alive.add(life);
    void exited.then(() => alive.delete(life));
    return life;
  };

  const begin = async ({ worker, exited }: Life): Promise<void> => {
    const ended = exited.then(() => {
      throw new StartError('An edge worker could not start; its own line above says why.');
    });
    // Sent by edge.ts once it should get traffic.
    const ready = new Promise<void>((resolve) => worker.on('message', (message) => message === 'ready' && resolve()));
    await Promise.race([ready, ended]);
  };

  const keep = async ({ worker, startedMs, exited }: Life): Promise<void> => {
    const { code, signal } = await exited;
    if (closing.signal.aborted) return;
    logger.error({ worker: worker.process.pid, code, signal }, 'an edge worker died; starting another');
    if (performance.now() - startedMs < shortLifeMs) await pause();
    await replace();
  };
  const pause = () => delay(shortLifeMs, undefined, { signal: closing.signal }).catch(() => {});
  const replace = async (): Promise<void> => {
    while (!closing.signal.aborted) {
      try {
        void keep(fork());
        return;
      } catch (err) {
        // Thrown at once, for lack of memory for one: there may be some later.
        logger.error({ err }, 'an edge worker could not be started; trying again');
        await pause();
      }
    }
  };

  const close = async (delayMs: number): Promise<void> => {
    closing.abort();
    const ends = [...alive].map(({ worker, exited }) => {
      worker.process.kill(delayMs > 0 ? 'SIGTERM' : 'SIGINT');
      return exited;
    });
    await Promise.all(ends);
  };

  try {
    const first = Array.from({ length: env.workers }, fork);
    await Promise.all(first.map(begin));
    for (const life of first) void keep(life);
    return { url: originAt(env.host, port), close };
  } catch (error) {
    await close(0);
    throw error;
  }
}
