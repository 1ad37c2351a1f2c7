import cluster from 'node:cluster';
import { setTimeout as delay } from 'node:timers/promises';
import type { Env } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import type { ServiceName } from '#shared/service-names.ts';
import { openBase } from './base.ts';
import { type Closer, closeAll, closeTogether } from './close-all.ts';
import type { OpenDatabase } from './database.ts';
import { startEdgeWorkers } from './edge-workers.ts';
import { readinessOf } from './parts/readiness.ts';
import { serveServices } from './parts/rpc-server.ts';
import type { Switchboard } from './switchboard.ts';

/** The parts of the gateway that a process carries. */
export type GatewayParts = {
  services: readonly ServiceName[];
  edge: boolean;
  /** Whether it serves InferenceService to others; an edge and a worker have an inference part anyway. */
  inference?: boolean;
  /** Whether it starts WORKERS, processes with one edge each, in front of its services. */
  edgeWorkers?: boolean;
  /** Whether it runs background jobs. */
  worker: boolean;
  /**
   * Creates what a new gateway needs, once the services run. The edge is not ready before that, nor with a catalog older than the returned
   * one.
   */
  bootstrap?: (switchboard: Switchboard) => Promise<{ catalogVersion: bigint }>;
  /** The database, if it was started already; the gateway closes it. */
  database?: Promise<OpenDatabase>;
  /** Resolves with the folder of the built portal; undefined: the edge serves none. */
  portal?: Promise<string>;
};

export type Gateway = {
  /** Where clients connect; undefined without an edge here or in WORKERS. */
  url: string | undefined;
  /** Where other processes connect; undefined for an edge or a worker alone. */
  rpcUrl: string | undefined;
  /** Where a process without an edge shows its health and metrics, if it does. */
  healthUrl: string | undefined;
  switchboard: Switchboard;
  /** Resolves with true when `/readyz` says yes, with false when the gateway closes first. */
  ready(): Promise<boolean>;
  /**
   * Refuses new work, lets running work end, ships the last usage events and closes. Before that an edge, and services without one, go on
   * for `delayMs`, as not ready: whoever still comes is served, and by an edge told to come back on another connection.
   */
  close(delayMs?: number): Promise<void>;
};

const readyPollMs = 5;

/**
 * Starts the given parts in this process. Throws a StartError, with everything closed again, when it cannot. Parts are imported as they are
 * started: an edge alone loads nothing that only the database needs, and a service nothing of the edge.
 */
export async function startGateway(env: Env, parts: GatewayParts, logger: Logger): Promise<Gateway> {
  const hasServices = parts.services.length > 0;
  const base = openBase(env, logger);
  const { switchboard, progress, closers } = base;
  let served: Awaited<ReturnType<typeof serveServices>> | undefined;
  const close = async (delayMs = 0): Promise<void> => {
    progress.closing = true;
    progress.closeDelayMs = delayMs;
    served?.stopServing();
    // Edges wait by themselves, here and in WORKERS, and the services behind them with them.
    if (served !== undefined && !parts.edge && !parts.edgeWorkers) await delay(delayMs);
    return closeAll(closers.splice(0));
  };
  try {
    const partsReadiness = readinessOf(base);
    const { metricsPort: port } = env;
    const healthUrl =
      parts.edge || port === undefined
        ? undefined
        : await (await import('./parts/health.ts')).startHealth(base, { port, readiness: partsReadiness });
    const connection =
      hasServices || parts.worker
        ? await (await import('./parts/database.ts')).startDatabase(base, parts.database)
        : undefined;
    const services = hasServices
      ? await (await import('./services.ts')).startServices(base, parts.services, connection!)
      : [];
    const hasInference = parts.inference || parts.edge || parts.worker;
    const inference = hasInference ? await (await import('./parts/inference.ts')).startInferencePart(base) : undefined;
    // Before that jobs would fail, and one of WORKERS would be given connections that others could serve.
    if (parts.worker || cluster.isWorker) await inference?.prepared;
    if (hasServices || parts.inference) {
      served = await serveServices(base, inference === undefined ? services : [...services, inference.rpc]);
    }
    const rpcUrl = served?.url;
    // Jobs and requests get their time to end together: supervisors, Kubernetes for one, kill after 30 s.
    const ofWorker: Closer[] = [];
    const ofEdge: Closer[] = [];
    closers.push(() => closeTogether([() => closeAll(ofEdge), () => closeAll(ofWorker)]));
    if (parts.worker)
      await (await import('./parts/worker.ts')).startWorker({ ...base, closers: ofWorker }, connection!);
    const edge = parts.edge
      ? await (await import('./parts/edge.ts')).startEdge(
          { ...base, closers: ofEdge },
          partsReadiness,
          await parts.portal,
        )
      : undefined;
    const readiness = edge?.readiness ?? partsReadiness;
    const bootstrapped = await parts.bootstrap?.(switchboard);
    const workers = parts.edgeWorkers ? await startEdgeWorkers({ cluster, env, rpcUrl: rpcUrl!, logger }) : undefined;
    if (workers !== undefined) ofEdge.push(() => workers.close(progress.closeDelayMs));
    progress.catalogVersionMin = bootstrapped?.catalogVersion ?? 0n;
    const ready = async (): Promise<boolean> => {
      while (!progress.closing && !readiness().ready) await delay(readyPollMs);
      return !progress.closing;
    };
    return { url: edge?.url ?? workers?.url, rpcUrl, healthUrl, switchboard, ready, close };
  } catch (error) {
    await close().catch((err) => logger.error({ err }, 'did not close cleanly'));
    throw error;
  }
}
