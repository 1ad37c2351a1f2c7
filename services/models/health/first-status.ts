import { type DeploymentSettings, DeploymentStatus, UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsDeps } from '../deps.ts';
import { type Judged, notProbedYet } from '../domain/deployment-health.ts';
import { probeFailure } from './probe-failure.ts';

/** An operator waits for this probe, in milliseconds. */
const firstProbeMs = 2_000;

/** The status of a deployment that has not been probed yet: the sandbox always runs. */
export function unprobed({ dialect, enabled }: DeploymentSettings): Judged {
  if (enabled === false) return { status: DeploymentStatus.STOPPED, reason: '' };
  if (dialect === UpstreamDialect.SANDBOX) return { status: DeploymentStatus.RUNNING, reason: '' };
  return { status: DeploymentStatus.PENDING, reason: notProbedYet };
}

/** The initial status of a deployment, and why: Running when its upstream answers a first probe, otherwise Pending until it does. */
export async function firstStatus(
  connectUpstream: ModelsDeps['connectUpstream'],
  settings: DeploymentSettings,
  signal: AbortSignal,
): Promise<Judged> {
  const before = unprobed(settings);
  if (before.status === DeploymentStatus.STOPPED) return before;
  const upstream = connectUpstream(settings);
  try {
    await upstream.probe(AbortSignal.any([signal, AbortSignal.timeout(firstProbeMs)]));
    return { status: DeploymentStatus.RUNNING, reason: '' };
  } catch (error) {
    return { status: before.status, reason: probeFailure(error) };
  } finally {
    await upstream.close();
  }
}
