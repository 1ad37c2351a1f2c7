import { type DeploymentSettings, DeploymentStatus, UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsDeps } from '../deps.ts';

/** An operator waits for this probe, in milliseconds. */
const firstProbeMs = 2_000;

/** The state of a deployment that nobody has asked yet: the sandbox always runs. */
export const unprobedStatus = ({ dialect }: DeploymentSettings): DeploymentStatus =>
  dialect === UpstreamDialect.SANDBOX ? DeploymentStatus.RUNNING : DeploymentStatus.PENDING;

/** The state in which a deployment begins: Running when its upstream answers a first probe, otherwise Pending until it does. */
export async function firstStatus(
  connectUpstream: ModelsDeps['connectUpstream'],
  settings: DeploymentSettings,
  signal: AbortSignal,
): Promise<DeploymentStatus> {
  if (settings.enabled === false) return DeploymentStatus.STOPPED;
  const upstream = connectUpstream(settings);
  try {
    await upstream.probe(AbortSignal.any([signal, AbortSignal.timeout(firstProbeMs)]));
    return DeploymentStatus.RUNNING;
  } catch {
    return unprobedStatus(settings);
  } finally {
    await upstream.close();
  }
}
