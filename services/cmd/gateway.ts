import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fastify } from 'fastify';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import type { Env } from '#shared/env.ts';
import type { Logger } from '#shared/logger.ts';
import { createCallReport } from '#shared/rpc/call-report.ts';
import { createRpcMetrics } from '#shared/rpc/rpc-metrics.ts';
import { rpcService } from '#shared/rpc/rpc-service.ts';
import { createRpcServer, type RpcServer } from '#shared/rpc/server.ts';
import { createServiceTokens } from '#shared/rpc/service-token.ts';
import { createMessageValidation } from '#shared/rpc/validation.ts';
import { StartError } from '#shared/start-error.ts';
import { type Readiness, registerHealth } from '../../edge/http/health.ts';
import { createEdge } from '../../edge/server.ts';
import { openCredentials } from '../../edge/snapshots/credentials.ts';
import { startJobWorker } from '../jobs/workers/start.ts';
import { startInference } from '../models/start-inference.ts';
import { connectUpstream, environmentSecrets } from '../models/upstream/connect.ts';
import { type Closer, closeAll } from './close-all.ts';
import { type OpenDatabase, openDatabase } from './database.ts';
import { metricsOfAll } from './metrics-of-all.ts';
import { serviceMigrations } from './migrations.ts';
import type { ServiceName } from './service-names.ts';
import { bodyReadMaxBytes, startService } from './services.ts';
import { Switchboard } from './switchboard.ts';

/** Which parts of the gateway a process carries. */
export type GatewayParts = {
  services: readonly ServiceName[];
  edge: boolean;
  /** Whether it runs background jobs; when absent: if it carries both an edge and Jobs. */
  worker?: boolean;
  /** Makes what a new gateway needs, once the services run; the edge is not ready before, nor with an older catalog than it answers. */
  bootstrap?: (switchboard: Switchboard) => Promise<{ catalogVersion: bigint }>;
  /** The database, when it was started already; the gateway closes it. */
  database?: Promise<OpenDatabase>;
  /** The folder of the built portal, once it is built; undefined: the edge serves none. */
  portal?: Promise<string>;
};

export type Gateway = {
  /** Where clients connect; undefined without an edge. */
  url: string | undefined;
  /** Where other processes connect; undefined without services. */
  rpcUrl: string | undefined;
  /** Where a process without an edge shows its health and metrics, from its start to its end, if it is to. */
  healthUrl: string | undefined;
  switchboard: Switchboard;
  /** Waits until `/readyz` says yes; at once without an edge. */
  ready(): Promise<void>;
  /**
   * Refuses new work, lets what runs end, ships the last usage events and closes. For `delayMs` an edge goes on before, as not ready:
   * whoever still comes is served, and told to come back by another connection.
   */
  close(delayMs?: number): Promise<void>;
};

/** Clients that may be waiting to be let in; Linux allows fewer where net.core.somaxconn says so. With Node's 511 a crowd waits for seconds. */
const backlog = 4_096;

/** How long requests may go on once the process was told to stop, in milliseconds. */
const drainMs = 20_000;

const readyPollMs = 5;
const idlePollMs = 50;

/** Starts the given parts in this process. Throws a StartError, with everything closed again, when it cannot. */
export async function startGateway(env: Env, parts: GatewayParts, logger: Logger): Promise<Gateway> {
  const { clock } = env;
  const hasWorker = parts.worker ?? (parts.edge && parts.services.includes('jobs'));
  const closers: Closer[] = [];
  let closing = false;
  let closeDelayMs = 0;
  const close = (delayMs = 0): Promise<void> => {
    closing = true;
    closeDelayMs = delayMs;
    return closeAll(closers.splice(0));
  };
  try {
    const registry = new Registry();
    collectDefaultMetrics({ register: registry });
    const allMetrics = metricsOfAll(registry);
    closers.push(allMetrics.close);
    let isSetUp = false;
    let healthUrl: string | undefined;
    if (!parts.edge && env.metricsPort !== undefined) {
      const health = fastify();
      // Not for Postgres: while it is away, what is in memory is served, and a lease is extended by the process that granted it alone.
      const readiness: Readiness = () => {
        if (closing) return { ready: false, reason: 'draining' };
        return isSetUp ? { ready: true } : { ready: false, reason: 'not set up yet' };
      };
      registerHealth(health, readiness, allMetrics.text);
      healthUrl = await listening(
        'METRICS_PORT',
        env.metricsPort,
        health.listen({ host: env.host, port: env.metricsPort }),
      );
      closers.push(() => health.close());
    }
    const report = createCallReport({ logger, clock, metrics: createRpcMetrics(registry) });
    const validate = createMessageValidation();
    const switchboard = new Switchboard({ clock, secrets: env.serviceSecrets, urls: env.rpcUrls });
    closers.push(() => switchboard.close());

    let rpcServer: RpcServer | undefined;
    let rpcUrl: string | undefined;
    let connection: DatabaseUrl | undefined;
    if (parts.services.length > 0 || hasWorker) {
      const database = await (parts.database ?? openDatabase(env, logger));
      closers.push(database.close);
      connection = database.connection;
      await migrateAll(connection, serviceMigrations, logger);
    }
    if (parts.services.length > 0) {
      const started = [];
      for (const name of parts.services) {
        const service = await startService(name, {
          env,
          connection: connection!,
          clock,
          logger,
          switchboard,
          registry,
        });
        closers.push(service.close);
        switchboard.add(service.rpc, { report, validate });
        started.push(service.rpc);
      }
      const tokens = createServiceTokens({ issuer: 'gateway', secrets: env.serviceSecrets, clock });
      rpcServer = createRpcServer({ services: started, tokens, report, validate, drainMs });
      rpcUrl = await listening('RPC_PORT', env.rpcPort, rpcServer.listen({ host: env.rpcHost, port: env.rpcPort }));
      closers.push(() => rpcServer!.close());
    }

    let url: string | undefined;
    /** The oldest catalog to serve by; undefined before everything is set up. */
    let catalogVersionMin: bigint | undefined = parts.bootstrap === undefined ? 0n : undefined;
    let readiness: Readiness | undefined;
    let catalogVersion = (): bigint => -1n;
    if (parts.edge || hasWorker) {
      const inference = await startInference({
        models: switchboard.client('inference', ModelsService),
        usage: switchboard.client('inference', UsageService),
        billing: switchboard.client('inference', BillingService),
        connectUpstream: connectUpstream({
          clock,
          secret: environmentSecrets({ ...process.env, UPSTREAM_API_KEY: env.upstreamApiKey }),
        }),
        dataDir: env.dataDir,
        journalSync: env.journalSync,
        clock,
        logger,
        registry,
        onFatal: (err) => {
          logger.fatal({ err }, 'the metering journal cannot keep its promises');
          process.exit(70);
        },
      });
      closers.push(inference.close);
      catalogVersion = inference.catalogVersion;
      switchboard.add(
        rpcService(InferenceService, inference.implementation, {
          callers: [],
          validateLocally: false,
          readMaxBytes: bodyReadMaxBytes,
        }),
        { report, validate },
      );
    }

    if (hasWorker) {
      const worker = await startJobWorker({
        connection: connection!,
        inference: switchboard.client('jobs', InferenceService),
        billing: switchboard.client('jobs', BillingService),
        keys: switchboard.client('jobs', KeysService),
        auth: switchboard.client('jobs', AuthService),
        registry,
        clock,
        logger: logger.child({ service: 'jobs' }),
      });
      closers.push(worker.close);
    }

    if (parts.edge) {
      const keys = switchboard.client('edge', KeysService);
      const auth = switchboard.client('edge', AuthService);
      const credentials = openCredentials({
        keys,
        auth,
        peppers: env.keyPeppers,
        publicUrl: env.publicUrl,
        clock,
        logger,
      });
      closers.push(credentials.close);
      // Latched: a feed that is lost later is a matter of single requests, and no reason to lose all edges at once.
      let wasReady = false;
      readiness = () => {
        if (closing) return { ready: false, reason: 'draining' };
        if (wasReady) return { ready: true };
        if (catalogVersionMin === undefined) return { ready: false, reason: 'not set up yet' };
        if (catalogVersion() < catalogVersionMin) return { ready: false, reason: 'no catalog yet' };
        if (!credentials.isLive) return { ready: false, reason: 'no keys or sessions yet' };
        wasReady = true;
        return { ready: true };
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
        metricsText: allMetrics.text,
        clock,
        logger,
        publicUrl: env.publicUrl,
        serviceSecrets: env.serviceSecrets,
        uploadsDir: join(env.dataDir, 'uploads'),
        portalDirectory: await parts.portal,
        trustedProxies: env.trustedProxies,
      });
      let tidy: NodeJS.Timeout | undefined;
      // Until this is over the listener is open, and all answers say `connection: close`.
      edge.addHook('preClose', async () => {
        await delay(closeDelayMs);
        // Who is being answered has a connection that was promised to stay; it is idle once that is over.
        tidy = setInterval(() => edge.server.closeIdleConnections(), idlePollMs);
      });
      url = await listening('PORT', env.port, edge.listen({ host: env.host, port: env.port, backlog }));
      closers.push(async () => {
        const cut = setTimeout(() => edge.server.closeAllConnections(), closeDelayMs + drainMs);
        try {
          await edge.close();
        } finally {
          clearInterval(tidy);
          clearTimeout(cut);
        }
      });
    }
    if (parts.bootstrap !== undefined) catalogVersionMin = (await parts.bootstrap(switchboard)).catalogVersion;
    isSetUp = true;
    const ready = async (): Promise<void> => {
      while (!closing && readiness?.().ready === false) await delay(readyPollMs);
    };
    return { url, rpcUrl, healthUrl, switchboard, ready, close };
  } catch (error) {
    await close().catch((err) => logger.error({ err }, 'did not close cleanly'));
    throw error;
  }
}

/** Waits for a listener; a port that cannot be had is told by the variable that chooses it. */
async function listening(variable: string, port: number, listen: Promise<string>): Promise<string> {
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
    if (code === 'EADDRNOTAVAIL')
      throw new StartError(
        `The address to listen on is not one of this machine's: set ${variable.replace('PORT', 'HOST')}.`,
        { cause: error },
      );
    throw error;
  }
}
