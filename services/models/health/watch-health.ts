import type { Client } from '@connectrpc/connect';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';
import { asService } from '#shared/rpc/caller.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { DeploymentRuntime } from '../catalog/deployment-runtime.ts';
import { probeFailure } from './probe-failure.ts';

/** How often observations are reported, and deployments due for a probe are looked for. */
const tickMs = 1_000;
/** A serving deployment is probed after having been idle for this long, a doubtful one at this interval. */
const idleProbeMs = 10_000;
const doubtProbeMs = 2_000;
const probeTimeoutMs = 5_000;
/** Before the process started. */
const longAgoMs = 1e12;
const reportTimeoutMs = 3_000;
/** The most probes at the same time: a catalog may have thousands of deployments. */
const probesMax = 32;

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

  const probe = async (deployment: DeploymentRuntime): Promise<void> => {
    try {
      await deployment.upstream.probe(AbortSignal.any([closing.signal, AbortSignal.timeout(probeTimeoutMs)]));
      deployment.probed(null);
    } catch (error) {
      if (!closing.signal.aborted) deployment.probed(probeFailure(error));
    }
  };

  const report = async (): Promise<void> => {
    const deployments = [];
    for (const deployment of catalog.deployments()) {
      const seen = deployment.takeHealth();
      if (seen.successes + seen.failures > 0 || deployment.isDoubtful) {
        deployments.push({ deploymentId: deployment.id, ...seen });
      }
    }
    if (deployments.length === 0) return;
    try {
      await models.reportDeploymentHealth(
        { edgeId, deployments },
        {
          ...asService('inference'),
          signal: closing.signal,
          timeoutMs: reportTimeoutMs,
        },
      );
      failures.succeeded();
    } catch (err) {
      // Anything still in doubt is part of the next report again.
      if (!closing.signal.aborted) failures.failed(err, 'failed; trying again');
    }
  };

  const tick = (): void => {
    const nowMs = clock.monotonic();
    // Those that have waited the longest first: where more are due than can be probed, each still has its turn.
    const due = Array.from(catalog.deployments(), (deployment) => ({
      deployment,
      intervals: intervalsSinceProbe(deployment, nowMs),
    }))
      .filter(({ intervals }) => intervals >= 1)
      .sort((a, b) => b.intervals - a.intervals);
    for (const { deployment } of due.slice(0, probesMax - probes.size)) {
      probedMs.set(deployment, nowMs);
      const running = probe(deployment).finally(() => probes.delete(running));
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
