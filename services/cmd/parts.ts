import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { originAt } from '#shared/env.ts';
import { type RpcService, rpcService } from '#shared/rpc/rpc-service.ts';
import type { Readiness } from '../../edge/http/health.ts';
import { createHealthServer } from '../../edge/http/health-server.ts';
import { createEdge } from '../../edge/server.ts';
import { openCredentials } from '../../edge/snapshots/credentials.ts';
import { startJobWorker } from '../jobs/workers/start.ts';
import { type StartedInference, startInference } from '../models/start-inference.ts';
import { type Base, bodyReadMaxBytes, drainMs, listening } from './base.ts';
import { type OpenDatabase, openDatabase } from './database.ts';
import { serviceMigrations } from './migrations.ts';

/** Clients that may be waiting to be let in; Linux allows fewer where net.core.somaxconn says so. With Node's 511 a crowd waits for seconds. */
const backlog = 4_096;

const idlePollMs = 50;

/**
 * Whether a process takes traffic; an edge asks for more. Not for Postgres: while it is away, what is in memory is served, and a lease is
 * extended by the process that granted it alone.
 */
export const readinessOf =
  ({ progress }: Pick<Base, 'progress'>): Readiness =>
  () => {
    const { closing, catalogVersionMin, inference } = progress;
    if (closing) return { ready: false, reason: 'draining' };
    if (inference !== undefined) {
      if (!inference.takesCalls()) return { ready: false, reason: 'the metering journal cannot be written' };
      if (inference.catalogVersion() < (catalogVersionMin ?? 0n)) return { ready: false, reason: 'no catalog yet' };
      if (!inference.isPrepared()) return { ready: false, reason: 'no rate limits yet' };
    }
    return catalogVersionMin === undefined ? { ready: false, reason: 'not set up yet' } : { ready: true };
  };

/** Shows health and metrics of a process without an edge, if METRICS_PORT says where. Returns the address. */
export async function startHealth(
  { env, logger, metricsText, closers }: Base,
  readiness: Readiness,
): Promise<string | undefined> {
  const { host, metricsPort: port } = env;
  if (port === undefined) return undefined;
  const health = createHealthServer({ readiness, metricsText, logger });
  await listening('METRICS_PORT', port, health.listen({ host, port }));
  closers.push(() => health.close());
  return originAt(host, (health.server.address() as AddressInfo).port);
}

/** Opens the database, if that was not begun already, and brings its schemas up to date. */
export async function startDatabase(
  { env, logger, closers }: Base,
  begun: Promise<OpenDatabase> | undefined,
): Promise<DatabaseUrl> {
  const { connection, close } = await (begun ?? openDatabase(env, logger));
  closers.push(close);
  await migrateAll(connection, serviceMigrations, logger);
  return connection;
}

/** Starts the inference part for this process; serveServices lets others call its `rpc`. */
export async function startInferencePart(base: Base): Promise<StartedInference & { rpc: RpcService }> {
  const { env, logger, registry, switchboard, calls, connectUpstream, progress, closers } = base;
  const inference = await startInference({
    models: switchboard.client('inference', ModelsService),
    usage: switchboard.client('inference', UsageService),
    billing: switchboard.client('inference', BillingService),
    connectUpstream,
    dataDir: env.dataDir,
    journalSync: env.journalSync,
    clock: env.clock,
    logger,
    registry,
    onFatal: (err) => {
      logger.fatal({ err }, 'the metering journal cannot keep its promises');
      process.exit(70);
    },
  });
  closers.push(inference.close);
  progress.inference = inference;
  const rpc = rpcService(InferenceService, inference.implementation, {
    callers: ['edge', 'jobs'],
    validateLocally: false,
    readMaxBytes: bodyReadMaxBytes,
  });
  switchboard.add(rpc, calls);
  return { ...inference, rpc };
}

/** Runs background jobs by the inference part of this process. */
export async function startWorker(
  { env, logger, registry, switchboard, closers }: Base,
  connection: DatabaseUrl,
): Promise<void> {
  const worker = await startJobWorker({
    connection,
    inference: switchboard.client('jobs', InferenceService),
    billing: switchboard.client('jobs', BillingService),
    keys: switchboard.client('jobs', KeysService),
    auth: switchboard.client('jobs', AuthService),
    registry,
    drainMs,
    clock: env.clock,
    logger: logger.child({ service: 'jobs' }),
  });
  closers.push(worker.close);
}

/** Starts the public face, with the portal in the given folder. */
export async function startEdge(
  { env, logger, registry, metricsText, switchboard, progress, closers }: Base,
  partsReadiness: Readiness,
  portalDirectory: string | undefined,
): Promise<{ url: string; readiness: Readiness }> {
  const { clock, publicUrl, host, port } = env;
  const keys = switchboard.client('edge', KeysService);
  const auth = switchboard.client('edge', AuthService);
  const credentials = openCredentials({ keys, auth, peppers: env.keyPeppers, publicUrl, registry, clock, logger });
  closers.push(credentials.close);
  // Latched: a feed that is lost later is a matter of single requests, and no reason to lose all edges at once.
  let knewCredentials = false;
  const readiness: Readiness = () => {
    const state = partsReadiness();
    if (!state.ready) return state;
    knewCredentials ||= credentials.isLive;
    return knewCredentials ? state : { ready: false, reason: 'no keys or sessions yet' };
  };
  const edge = await createEdge({
    keys,
    auth,
    usage: switchboard.client('edge', UsageService),
    billing: switchboard.client('edge', BillingService),
    models: switchboard.client('edge', ModelsService),
    inference: switchboard.client('edge', InferenceService),
    jobs: switchboard.client('edge', JobsService),
    credentials,
    readiness,
    registry,
    metricsText,
    clock,
    logger,
    publicUrl,
    serviceSecrets: env.serviceSecrets,
    uploadsDir: join(env.dataDir, 'uploads'),
    portalDirectory,
    trustedProxies: env.trustedProxies,
    keepAliveMs: env.keepAliveMs,
  });
  let tidy: NodeJS.Timeout | undefined;
  // Until this is over the listener is open, and all answers say `connection: close`.
  edge.addHook('preClose', async () => {
    await delay(progress.closeDelayMs);
    // What arrived while the machine had no core for this process is read before anything is closed; timers come before sockets.
    await turn();
    // Who is being answered has a connection that was promised to stay; it is idle once that is over.
    tidy = setInterval(() => setImmediate(() => edge.server.closeIdleConnections()), idlePollMs);
  });
  await listening('PORT', port, edge.listen({ host, port, backlog }));
  closers.push(async () => {
    const cut = setTimeout(() => edge.server.closeAllConnections(), progress.closeDelayMs + drainMs);
    try {
      await edge.close();
    } finally {
      clearInterval(tidy);
      clearTimeout(cut);
    }
  });
  return { url: originAt(host, (edge.server.address() as AddressInfo).port), readiness };
}
