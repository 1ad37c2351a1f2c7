import { fromJson, type JsonObject, toJson } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type DeploymentSettings,
  DeploymentSettingsSchema,
  DeploymentStatus,
  UpstreamDialect,
  UpstreamDialectSchema,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import { isBareUrl, plainBaseUrl } from '#shared/bare-url.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { DeploymentEntity, type DeploymentRow, type ModelRow } from '../db/catalog.entities.ts';
import type { ModelsDeps } from '../deps.ts';
import type { Judged } from '../domain/deployment-health.ts';
import { effectiveSettings, serverOf } from '../domain/deployment-settings.ts';
import { unprobed } from '../health/first-status.ts';
import { variableOf } from '../upstream/connect.ts';
import { sandboxBaseUrl, sandboxModels } from '../upstream/sandbox/models.ts';

/** Adds a deployment in the state that is known of it. */
export function addDeployment(
  em: SqlEntityManager,
  model: ModelRow,
  settings: DeploymentSettings,
  { status, reason }: Judged,
  now: Date,
): DeploymentRow {
  const row = em.create(DeploymentEntity, {
    id: uuidv7(),
    modelId: model.id,
    ...addressOf(settings, model.name),
    settings: toJson(DeploymentSettingsSchema, settings) as JsonObject,
    status,
    statusReason: reason,
    statusChangedAt: now,
    createdAt: now,
  });
  em.persist(row);
  return row;
}

/**
 * Changes what the settings name and leaves the rest; returns the complete result. A deployment that is switched off is Stopped; what is
 * known of one that is switched on again, or moves to another server, `statusOf` says.
 */
export function changeDeployment(
  row: DeploymentRow,
  changes: DeploymentSettings,
  statusOf: (settings: DeploymentSettings) => Judged,
  now: Date,
): DeploymentSettings {
  const before = fromJson(DeploymentSettingsSchema, row.settings);
  const settings = mergedSettings(row.settings, changes);
  row.settings = toJson(DeploymentSettingsSchema, settings) as JsonObject;
  const isOff = settings.enabled === false;
  const isTurned = isOff !== (row.status === DeploymentStatus.STOPPED);
  if (isTurned || serverOf(settings) !== serverOf(before)) {
    setStatus(row, isOff ? unprobed(settings) : statusOf(settings), now);
  }
  return settings;
}

/** Sets what is known of a deployment, as of now. */
function setStatus(row: DeploymentRow, { status, reason }: Judged, now: Date): void {
  row.status = status;
  row.statusReason = reason;
  row.statusChangedAt = now;
}

/** Stored settings with what the changes name. */
export const mergedSettings = (stored: JsonObject, changes: DeploymentSettings): DeploymentSettings =>
  // The JSON form has only the fields that are set.
  fromJson(DeploymentSettingsSchema, { ...stored, ...(toJson(DeploymentSettingsSchema, changes) as JsonObject) });

/** How rows may spell a plain base URL: earlier versions kept a slash at its end. */
export const baseUrlSpellings = (baseUrl: string): string[] => [baseUrl, `${baseUrl}/`];

/** Whether a deployment has this address. */
export const isAt = (kept: Address, { baseUrl, upstreamModel }: Address): boolean =>
  plainBaseUrl(kept.baseUrl) === baseUrl && kept.upstreamModel === upstreamModel;

type Address = { baseUrl: string; upstreamModel: string };

/** The address of a deployment as its settings spell it. */
export const keptAddressOf = (settings: DeploymentSettings, model: string): Address => ({
  baseUrl: settings.dialect === UpstreamDialect.SANDBOX ? sandboxBaseUrl : (settings.baseUrl ?? ''),
  upstreamModel: settings.upstreamModel || model,
});

/** The address of a deployment, with a plain base URL. @throws INVALID_REQUEST naming the field when no server can be there. */
export function addressOf(settings: DeploymentSettings, model: string): Address {
  const { baseUrl, upstreamModel } = keptAddressOf(settings, model);
  if (settings.dialect === UpstreamDialect.SANDBOX) return { baseUrl, upstreamModel };
  if (baseUrl === '') throw invalidRequest('base_url', 'A deployment needs a `base_url`.', 'missing_required_field');
  if (!isBareUrl(baseUrl)) {
    throw invalidRequest(
      'base_url',
      '`base_url` must be an http or https URL without user name, password, query or fragment. Name the API key in `secret_reference`.',
      'invalid_value',
    );
  }
  return { baseUrl: plainBaseUrl(baseUrl), upstreamModel };
}

/** Refuses a model that the sandbox lacks; what other servers have, only they know. @throws INVALID_REQUEST naming the field. */
export function requireSandboxModel({ baseUrl, upstreamModel }: Address): void {
  const ids = sandboxModels.map(({ id }) => id);
  if (baseUrl !== sandboxBaseUrl || ids.includes(upstreamModel)) return;
  throw invalidRequest(
    'upstream_model',
    `The sandbox has no model \`${upstreamModel}\`. \`upstream_model\` must be one of: ${ids.join(', ')}.`,
    'invalid_value',
  );
}

/** Refuses a reference to a missing secret. @throws INVALID_REQUEST naming the field. */
export function requireSecret(
  { upstreamSecret }: Pick<ModelsDeps, 'upstreamSecret'>,
  secretReference: string | undefined,
): void {
  if (!secretReference || upstreamSecret(secretReference) !== undefined) return;
  throw invalidRequest(
    'secret_reference',
    `\`secret_reference\` names ${variableOf(secretReference)}, which is not set in the gateway's environment.`,
    'invalid_value',
  );
}

/** Refuses a second deployment of a model at the same address. @throws CONFLICT naming the field. */
export async function requireFreeAddress(
  em: SqlEntityManager,
  model: Pick<ModelRow, 'id' | 'name'>,
  { baseUrl, upstreamModel }: Address,
): Promise<void> {
  const others = { modelId: model.id, baseUrl: { $in: baseUrlSpellings(baseUrl) }, upstreamModel };
  if ((await em.count(DeploymentEntity, others)) === 0) return;
  throw gatewayError(
    ErrorReason.CONFLICT,
    `\`${model.name}\` already has a deployment with this \`base_url\` and \`upstream_model\`.`,
    {
      param: 'base_url',
    },
  );
}

/** A deployment's fields in audit events, spelled as in the public API; secrets only as references. */
export function deploymentFields(model: string, row: DeploymentRow): JsonObject {
  const settings = effectiveSettings(fromJson(DeploymentSettingsSchema, row.settings));
  const fields = toJson(DeploymentSettingsSchema, settings, { useProtoFieldName: true }) as JsonObject;
  const dialect = UpstreamDialectSchema.value[settings.dialect || UpstreamDialect.OPENAI]!;
  return { model, ...fields, dialect: dialect.localName.toLowerCase() };
}
