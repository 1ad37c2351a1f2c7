import { type DeploymentSettings, UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';

/** The settings in force: what an operator chose, and the defaults of DeploymentSettings for the rest. */
export const effectiveSettings = (chosen: DeploymentSettings) => ({
  ...chosen,
  weight: chosen.weight ?? 1,
  priority: chosen.priority ?? 0,
  concurrencyLimit: chosen.concurrencyLimit || 1_000,
  connectTimeoutMs: chosen.connectTimeoutMs ?? 5_000,
  firstByteTimeoutMs: chosen.firstByteTimeoutMs ?? 600_000,
  idleTimeoutMs: chosen.idleTimeoutMs ?? 300_000,
  totalTimeoutMs: chosen.totalTimeoutMs ?? 600_000,
  enabled: chosen.enabled ?? true,
});

/** What a probe asks: deployments for which this is the same are on one server, and are known to it by the same secret. */
export const serverOf = ({ baseUrl, secretReference = '', dialect }: DeploymentSettings): string =>
  JSON.stringify([baseUrl, secretReference, dialect === UpstreamDialect.SANDBOX]);
