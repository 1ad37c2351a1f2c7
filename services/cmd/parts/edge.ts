import type { AddressInfo, Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { originAt } from '#shared/env.ts';
import type { Readiness } from '../../../edge/http/health.ts';
import { createEdge } from '../../../edge/server.ts';
import { openCredentials } from '../../../edge/snapshots/credentials.ts';
import { type Base, drainMs, listening } from '../base.ts';

/**
 * How many clients may wait to be accepted; Linux allows fewer if net.core.somaxconn says so. With Node's default of 511 a crowd waits for
 * seconds.
 */
const backlog = 4_096;

const idlePollMs = 50;

/**
 * How long waiting clients are still accepted before the listener closes, in milliseconds; if the crowd does not end, the rest is left out.
 */
const letInMsMax = 1_000;

/** Starts the public face, with the portal in the given folder. */
export async function startEdge(
  { env, logger, registry, metricsText, switchboard, progress, closers, bodiesBytesMax }: Base,
  partsReadiness: Readiness,
  portalDirectory: string | undefined,
): Promise<{ url: string; readiness: Readiness }> {
  const { clock, publicUrl, host, port } = env;
  const keys = switchboard.client('edge', KeysService);
  const auth = switchboard.client('edge', AuthService);
  const credentials = openCredentials({ keys, auth, peppers: env.keyPeppers, publicUrl, registry, clock, logger });
  closers.push(credentials.close);
  // Latched: losing a feed later affects single requests, and is no reason to lose all edges at once.
  let knewCredentials = false;
  const readiness: Readiness = () => {
    const state = partsReadiness();
    if (!state.ready) return state;
    knewCredentials ||= credentials.isLive;
    return knewCredentials ? state : { ready: false, reason: 'no keys from Keys, or no sessions from Auth, yet' };
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
    signingKeys: credentials.signingKeys,
    readiness,
    registry,
    metricsText,
    clock,
    logger,
    bodiesBytesMax,
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
    await allLetIn(edge.server);
    // A client being answered was promised a kept connection, which is idle only once the answer is over.
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

/**
 * Resolves once a turn of the event loop has accepted nobody, since each accepts one: a closing listener resets waiting clients, whether
 * they have sent a request or not.
 */
async function allLetIn(server: Server): Promise<void> {
  const endMs = performance.now() + letInMsMax;
  let cameIn: boolean;
  const note = (): void => {
    cameIn = true;
  };
  server.on('connection', note);
  do {
    cameIn = false;
    await turn();
  } while (cameIn && performance.now() < endMs);
  server.off('connection', note);
}
