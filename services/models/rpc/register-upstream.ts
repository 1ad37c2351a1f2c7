import { create } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  type DeploymentSettings,
  DeploymentSettingsSchema,
  DeploymentStatus,
  ModelSettingsSchema,
  UpstreamDialect,
} from '#gen/modelgateway/models/v1/model_pb.ts';
import {
  type ImportedModel,
  ImportedModelSchema,
  type RegisterUpstreamRequest,
  RegisterUpstreamResponseSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { plainBaseUrl } from '#shared/bare-url.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { messageOf } from '#shared/message-of.ts';
import { auditsOfModels, changeCatalogBy, operatorOrStart } from '../catalog/change-catalog.ts';
import { importModels, isChange } from '../catalog/import.ts';
import { listedModels } from '../catalog/listing.ts';
import { addressOf, baseUrlSpellings, changeDeployment, requireSecret } from '../catalog/write-deployment.ts';
import { faultOfName } from '../catalog/write-model.ts';
import { DeploymentEntity, type DeploymentRow, ModelEntity, type ModelRow } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import type { Judged } from '../domain/deployment-health.ts';
import { foundOperations } from '../domain/found-operations.ts';
import type { ListedModel, Upstream } from '../upstream/upstream.ts';

/**
 * How long an upstream may take to list its models, in milliseconds: less than the call itself, so that the caller learns why it failed.
 */
const discoveryTimeoutMs = 8_000;

/** The longest id of a target that Auth accepts (AuditTarget in audit.proto); a base URL may be longer. */
const targetLengthMax = 255;

export const registerUpstream =
  (
    deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'logger' | 'upstreamSecret' | 'connectUpstream'>,
  ): ModelsRpc<'registerUpstream'> =>
  async (request, context) => {
    const caller = operatorOrStart(context);
    const settings = create(DeploymentSettingsSchema, {
      baseUrl: request.baseUrl,
      secretReference: request.secretReference || undefined,
      dialect: request.dialect,
    });
    // Refuses an address where no server can be.
    const { baseUrl } = addressOf(settings, '');
    requireSecret(deps, settings.secretReference);
    const listed = await modelsOf(deps.connectUpstream(settings), request.baseUrl, context.signal);
    const found = foundModels(deps, listed, request.baseUrl);
    const names = found.map(({ name }) => name);

    const counts = await changeCatalogBy(deps, caller, async (em, now) => {
      const { standing, settled } = await knownModels(em, names, baseUrl);
      const modelIds = [...standing.values()].map(({ id }) => id);
      const deployments = await em.find(DeploymentEntity, {
        modelId: { $in: modelIds },
        baseUrl: { $in: baseUrlSpellings(baseUrl) },
      });
      const secretsGiven = request.onlyNew ? giveSecret(settings, deployments, now) : 0;
      const deployed = Map.groupBy(deployments, ({ modelId }) => modelId);
      const hasDeployment = ({ name, id }: FoundModel) =>
        deployed.get(standing.get(name)?.id ?? '')?.some(({ upstreamModel }) => upstreamModel === id) ?? false;
      const wanted = request.onlyNew ? found.filter(({ name }) => !settled.has(name)) : found;
      const imported = wanted.map((model) =>
        importedModel(request, settings, model, {
          isStanding: standing.has(model.name),
          hasDeployment: hasDeployment(model),
        }),
      );
      const done = await importModels(em, imported, answering, now);
      done.deploymentsUpdated += secretsGiven;
      await noteRegistration(em, names, baseUrl);
      const audits = auditsOfModels(names, {
        type: 'upstream_registered',
        target: { type: 'upstream', id: request.baseUrl.slice(0, targetLengthMax) },
        after: { base_url: request.baseUrl },
      });
      return { answer: done, audit: isChange(done) ? audits : null };
    });
    const registered = new Set(names);
    return create(RegisterUpstreamResponseSchema, {
      models: listedModels(deps.feed.snapshot, '', deps.clock.now()).filter(({ name }) => registered.has(name)),
      deploymentsCreated: counts.deploymentsCreated,
    });
  };

/** What is known of a deployment whose server has just listed its models, with the secret that it gets. */
const answering = (): Judged => ({ status: DeploymentStatus.RUNNING, reason: '' });

async function modelsOf(upstream: Upstream, baseUrl: string, signal: AbortSignal): Promise<ListedModel[]> {
  try {
    return await upstream.listModels(AbortSignal.any([signal, AbortSignal.timeout(discoveryTimeoutMs)]));
  } catch (cause) {
    throw gatewayError(
      ErrorReason.UPSTREAM_ERROR,
      `The models of ${baseUrl} could not be listed: ${messageOf(cause).replace(/\.$/, '')}.`,
      { param: 'base_url', cause },
    );
  } finally {
    await upstream.close();
  }
}

/** A listed model, and its name in the catalog. */
type FoundModel = ListedModel & { name: string };

/**
 * What can be registered of a list: a name that no model can have holds up no other. @throws INVALID_REQUEST when there are only such names.
 */
function foundModels(
  { logger }: Pick<ModelsDeps, 'logger'>,
  listed: readonly ListedModel[],
  baseUrl: string,
): FoundModel[] {
  // By name: a server that balances over others may list a model once for each of them.
  const found = new Map<string, FoundModel>();
  const faults: string[] = [];
  for (const model of listed) {
    const name = nameOf(model.id);
    const fault = faultOfName(name);
    if (fault === null) found.set(name, { ...model, name });
    else faults.push(fault);
  }
  if (faults.length > 0 && found.size === 0) {
    throw invalidRequest('base_url', `No model of ${baseUrl} can be registered: ${faults[0]}.`, 'invalid_value');
  }
  if (faults.length > 0) logger.warn({ baseUrl, faults: faults.slice(0, 20) }, 'models of an upstream are left out');
  return [...found.values()];
}

/** Some servers name a model by the path of its file, in which clients would resolve dots. */
const nameOf = (id: string): string =>
  id
    .split('/')
    .filter((part) => part !== '.' && part !== '..')
    .join('/');

/** What to import of a listed model. What was discovered or guessed replaces nothing that an operator may have corrected. */
function importedModel(
  { operations, onlyNew, dialect }: RegisterUpstreamRequest,
  settings: DeploymentSettings,
  { name, id, contextWindow, kinds, dialect: foundDialect }: FoundModel,
  known: { isStanding: boolean; hasDeployment: boolean },
): ImportedModel {
  const found = known.isStanding ? {} : { operations: [...foundOperations(name, kinds)], contextWindow };
  const deployment = create(DeploymentSettingsSchema, {
    ...settings,
    dialect: dialect || (known.hasDeployment ? UpstreamDialect.UNSPECIFIED : foundDialect),
    upstreamModel: id,
  });
  return create(ImportedModelSchema, {
    name,
    settings: create(ModelSettingsSchema, { ...found, ...(operations.length > 0 && { operations }) }),
    deployments: onlyNew && known.hasDeployment ? [] : [deployment],
  });
}

/**
 * The existing models, by name; and the names that are settled for an upstream: they were registered from it before, whatever operators
 * have done since, or they belong to deleted models.
 */
async function knownModels(
  em: SqlEntityManager,
  names: readonly string[],
  baseUrl: string,
): Promise<{ standing: Map<string, ModelRow>; settled: Set<string> }> {
  const rows = await em.find(ModelEntity, { name: { $in: [...names] } });
  const standing = new Map(rows.filter(({ deletedAt }) => deletedAt === null).map((row) => [row.name, row]));
  const settled = rows.filter((row) => !standing.has(row.name) || isRegisteredFrom(row, baseUrl));
  return { standing, settled: new Set(settled.map(({ name }) => name)) };
}

/** Gives the upstream's secret to deployments there that name none, as after a start without one; returns to how many. */
function giveSecret({ secretReference }: DeploymentSettings, deployments: readonly DeploymentRow[], now: Date): number {
  if (secretReference === undefined) return 0;
  // An empty reference that an operator chose stays.
  const without = deployments.filter(({ settings }) => settings.secretReference === undefined);
  const changes = create(DeploymentSettingsSchema, { secretReference });
  for (const row of without) changeDeployment(row, changes, answering, now);
  return without.length;
}

/** In one statement: the ORM would send thousands of models in as many parts. */
async function noteRegistration(em: SqlEntityManager, names: readonly string[], baseUrl: string): Promise<void> {
  await em.execute(
    `update models set registered_from = array_append(registered_from, ?)
     where deleted_at is null and name in (select json_array_elements_text(?::json)) and not registered_from && array[?, ?]`,
    [baseUrl, JSON.stringify(names), ...baseUrlSpellings(baseUrl)],
  );
}

const isRegisteredFrom = ({ registeredFrom }: ModelRow, baseUrl: string): boolean =>
  registeredFrom.some((url) => plainBaseUrl(url) === baseUrl);
