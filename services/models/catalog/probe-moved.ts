import { type JsonObject, toJson } from '@bufbuild/protobuf';
import {
  type Deployment,
  type DeploymentSettings,
  DeploymentSettingsSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsDeps } from '../deps.ts';
import type { Judged } from '../domain/deployment-health.ts';
import { serverOf } from '../domain/deployment-settings.ts';
import { firstStatus, unprobed } from '../health/first-status.ts';
import { addressOf, mergedSettings, requireSandboxModel } from './write-deployment.ts';

/** A deployment as it is known, and what is to change. */
export type DeploymentChange = { deployment: Deployment; changes: DeploymentSettings };

/**
 * Probes the servers to which changes move deployments, before the catalog is locked, so that a slow upstream holds nobody up. Returns what
 * is known of a deployment with some settings: as of a new one, if its server was not probed.
 */
export async function probeMoved(
  connectUpstream: ModelsDeps['connectUpstream'],
  changes: readonly DeploymentChange[],
  signal: AbortSignal,
): Promise<(settings: DeploymentSettings) => Judged> {
  const moved = new Map<string, DeploymentSettings>();
  for (const { deployment, changes: changed } of changes) {
    const settings = mergedSettings(toJson(DeploymentSettingsSchema, deployment.settings!) as JsonObject, changed);
    if (settings.enabled === false || serverOf(settings) === serverOf(deployment.settings!)) continue;
    requireSandboxModel(addressOf(settings, deployment.model));
    moved.set(serverOf(settings), settings);
  }
  const answers = [...moved].map(
    async ([server, settings]) => [server, await firstStatus(connectUpstream, settings, signal)] as const,
  );
  const known = new Map(await Promise.all(answers));
  return (settings) => (settings.enabled === false ? undefined : known.get(serverOf(settings))) ?? unprobed(settings);
}
