import type { Client } from '@connectrpc/connect';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';
import { asService } from '#shared/rpc/caller.ts';
import { slicesOf } from '#shared/slices.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { DeploymentRuntime } from '../catalog/deployment-runtime.ts';
import { serverOf } from '../domain/deployment-settings.ts';
import { probeFailure } from './probe-failure.ts';

/** How often observations are reported, and deployments due for a probe are looked for. */
const tickMs = 1_000;
/** A serving deployment is probed after having been idle for this long, a doubtful one at this interval. */
const idleProbeMs = 10_000;
const doubtProbeMs = 2_000;
const probeTimeoutMs = 5_000;
/** Before the process started. */
const longAgoMs = 1e12;
const reportTimeoutMs = 10_000;
/** The most probes at the same time: a catalog may have deployments on thousands of servers. */
const probesMax = 32;
/** A probe of a server is also for its deployments that are due for one after no more than this part of their interval. */
const soonDue = 0.5;
/** The most deployments in one report: what a request may hold, and what Models can store well before `reportTimeoutMs`. */
const reportedMax = 1_000;

/**
 * Probes the deployments of this process and reports what it observed, so that Models can determine their status. Recovery needs the
 * probes: a failed deployment gets no calls that could show that it is well again.
 */
export function watchHealth(deps: {
  catalog: Pick<Catalog, 'deployments'>;
  models: Pick<Client<typeof ModelsService>, 'reportDeploymentHealth'>;
  clock: Pick<Clock, 'monotonic'>;
  logger: FailureLogger;
}): { close(): Promise<void> } {
  const { catalog, models, clock, logger } = deps;
  const failures = new RepeatedFailures('reporting the health of deployments to Models', logger);
  const edgeId = uuidv7();
  const closing = new AbortController();
  const probedMs = new WeakMap<DeploymentRuntime, number>();
  const probes = new Set<Promise<void>>();
  let reporting: Promise<void> | null = null;

  /** How many intervals ago a deployment was probed; from 1 on it is due. */
  const intervalsSinceProbe = (deployment: DeploymentRuntime, nowMs: number): number => {
    const sinceProbeMs = nowMs - (probedMs.get(deployment) ?? -longAgoMs);
    if (deployment.isDoubtful) return sinceProbeMs / doubtProbeMs;
    return Math.min(sinceProbeMs, nowMs - deployment.lastSuccessMs) / idleProbeMs;
  };

  /** Probes the server of these deployments through the first of them. */
  const probe = async (deployments: readonly DeploymentRuntime[]): Promise<void> => {
    let failure: string | null = null;
    try {
      await deployments[0]!.upstream.probe(AbortSignal.any([closing.signal, AbortSignal.timeout(probeTimeoutMs)]));
    } catch (error) {
      // The closing of its upstream breaks a probe off, and says nothing of the others.
      if (closing.signal.aborted || deployments[0]!.isRetired) return;
      failure = probeFailure(error);
    }
    for (const deployment of deployments) deployment.probed(failure);
  };

  const report = async (): Promise<void> => {
    const deployments = [];
    for (const deployment of catalog.deployments()) {
      const seen = deployment.takeHealth();
      if (seen.successes + seen.failures > 0 || deployment.isDoubtful) {
        deployments.push({ deploymentId: deployment.id, ...seen });
      }
    }
    try {
      for (const reported of slicesOf(deployments, reportedMax)) {
        await models.reportDeploymentHealth(
          { edgeId, deployments: reported },
          { ...asService('inference'), signal: closing.signal, timeoutMs: reportTimeoutMs },
        );
        failures.succeeded();
      }
    } catch (err) {
      // Anything still in doubt is part of the next report again.
      if (!closing.signal.aborted) failures.failed(err, 'failed; trying again');
    }
  };

  const tick = (): void => {
    const nowMs = clock.monotonic();
    // Those that have waited the longest first: where more are due than can be probed, each still has its turn.
    const waiting = Array.from(catalog.deployments(), (deployment) => ({
      deployment,
      intervals: intervalsSinceProbe(deployment, nowMs),
    }))
      .filter(({ intervals }) => intervals >= soonDue)
      .sort((a, b) => b.intervals - a.intervals);
    const due = Map.groupBy(waiting, ({ deployment }) => probeOf(deployment)).values();
    for (const group of due.filter(([longest]) => longest!.intervals >= 1).take(probesMax - probes.size)) {
      const deployments = group.map(({ deployment }) => deployment);
      for (const deployment of deployments) probedMs.set(deployment, nowMs);
      const running = probe(deployments).finally(() => probes.delete(running));
      probes.add(running);
    }
    reporting ??= report().finally(() => {
      reporting = null;
    });
  };
  const timer = setInterval(tick, tickMs);

  return {
    async close() {
      clearInterval(timer);
      closing.abort();
      await Promise.all([...probes, reporting]);
    },
  };
}

/**
 * Deployments for which this is the same are probed together: a provider that hosts hundreds of models is asked for its model list once for
 * all of them.
 */
const probeOf = ({ settings }: DeploymentRuntime): string => `${serverOf(settings)} ${settings.connectTimeoutMs}`;
