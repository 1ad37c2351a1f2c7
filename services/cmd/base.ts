import cluster from 'node:cluster';
import { fileURLToPath } from 'node:url';
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Env } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { bodiesMemory, memoryBytes } from '#shared/memory-share.ts';
import { createCallReport } from '#shared/rpc/call-report.ts';
import type { LocalTransportDeps } from '#shared/rpc/local-transport.ts';
import { createRpcMetrics } from '#shared/rpc/rpc-metrics.ts';
import { validateMessage } from '#shared/rpc/validation.ts';
import { StartError } from '#shared/start-error.ts';
import project from '../../package.json' with { type: 'json' };
import type { StartedInference } from '../models/start-inference.ts';
import { connectUpstream, environmentSecrets } from '../models/upstream/connect.ts';
import type { Closer } from './close-all.ts';
import { metricsOfAll } from './metrics-of-all.ts';
import { revisionOf } from './revision.ts';
import { Switchboard } from './switchboard.ts';

/** What all parts of a process are built on. */
export type Base = {
  env: Env;
  logger: Logger;
  registry: Registry;
  /** How much memory each kind of large body may take, in bytes: one of WORKERS shares the memory with the others. */
  bodiesBytesMax: number;
  /** What `/metrics` answers. */
  metricsText: () => Promise<string>;
  switchboard: Switchboard;
  calls: LocalTransportDeps;
  /** Looks up a deployment's secret reference; undefined when there is no such secret. */
  upstreamSecret(reference: string): string | undefined;
  connectUpstream: ReturnType<typeof connectUpstream>;
  progress: Progress;
  /** Each part adds its own as soon as it is open, so that a start that fails later closes it too. */
  closers: Closer[];
};

/** Where the process is between its start and its end. */
type Progress = {
  closing: boolean;
  /** How long the process goes on, as not ready, before it closes. */
  closeDelayMs: number;
  /** The oldest catalog that may be served; undefined until everything is set up. */
  catalogVersionMin: bigint | undefined;
  /** The inference part, once it is open. */
  inference: StartedInference | undefined;
};

/** How long requests and calls may go on after the process was told to stop, in milliseconds. */
export const drainMs = 20_000;

/** The largest message that carries a request body, in bytes: an audio upload and its form. */
export const bodyReadMaxBytes = 36 * 1024 * 1024;

const root = fileURLToPath(new URL('../../', import.meta.url));
const sources = ['edge', 'gen', 'services', 'package-lock.json'];

/** Node's own metrics, once per process: its watchers of the event loop and the garbage collector cannot be removed, nor what they hold. */
const nodeMetrics = new Registry();
collectDefaultMetrics({ register: nodeMetrics });

/** Shows on `/metrics` which version runs, so that a roll-out can be followed. */
function showBuild(registry: Registry): void {
  new Gauge({
    name: 'gateway_build_info',
    help: 'Always 1; the labels name the running version, and its commit or other state of the sources.',
    labelNames: ['version', 'revision'],
    // One value for all processes of WORKERS.
    aggregator: 'first',
    registers: [registry],
  }).set({ version: project.version, revision: revisionOf(root, sources) }, 1);
}

export function openBase(env: Env, logger: Logger): Base {
  const { clock } = env;
  const registry = new Registry();
  for (const { name } of nodeMetrics.getMetricsAsArray()) registry.registerMetric(nodeMetrics.getSingleMetric(name)!);
  showBuild(registry);
  const allMetrics = metricsOfAll(registry, logger);
  const upstreamSecret = environmentSecrets(env.upstreamSecrets);
  const switchboard = new Switchboard({
    secrets: env.serviceSecrets,
    urls: env.rpcUrls,
    ownCertificate: env.rpcTls?.cert,
  });
  return {
    env,
    logger,
    registry,
    bodiesBytesMax: bodiesMemory(memoryBytes(cluster.isWorker ? env.workers : 1)),
    metricsText: allMetrics.text,
    switchboard,
    calls: {
      report: createCallReport({ logger, clock, metrics: createRpcMetrics(registry) }),
      validate: validateMessage,
    },
    upstreamSecret,
    connectUpstream: connectUpstream({ clock, secret: upstreamSecret, proxy: env.forwardProxy }),
    progress: { closing: false, closeDelayMs: 0, catalogVersionMin: undefined, inference: undefined },
    closers: [allMetrics.close, () => switchboard.close()],
  };
}

/** Waits for a listener; if the port cannot be used, the error names the variable that chooses it. */
export async function listening<Listening>(
  variable: string,
  port: number,
  listen: Promise<Listening>,
): Promise<Listening> {
  try {
    return await listen;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EADDRINUSE')
      throw new StartError(`Port ${port} is taken: stop what listens there, or set ${variable} to another.`, {
        cause: error,
      });
    if (code === 'EACCES')
      throw new StartError(`Port ${port} may not be used: set ${variable} to one above 1023.`, { cause: error });
    if (code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND' || code === 'EAI_AGAIN')
      throw new StartError(
        `The address to listen on is not one of this machine's: set ${variable.replace('PORT', 'HOST')}.`,
        { cause: error },
      );
    throw error;
  }
}
