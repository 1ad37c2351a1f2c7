import { create } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ImportCatalogResponseSchema, type ImportedModel } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { GatewayError, gatewayError, invalidRequest } from '#shared/errors.ts';
import { auditsOfModels, changeCatalogBy, operatorOrStart } from '../catalog/change-catalog.ts';
import { type ImportCounts, importedChanges, importModels, isChange } from '../catalog/import.ts';
import { type DeploymentChange, probeMoved } from '../catalog/probe-moved.ts';
import { addressOf, isAt, keptAddressOf, requireSandboxModel, requireSecret } from '../catalog/write-deployment.ts';
import { modelChanges } from '../catalog/write-model.ts';
import { ModelEntity } from '../db/catalog.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';
import { keepPromises, standingPromises } from '../retirements/promises.ts';

export const importCatalog =
  (
    deps: Pick<ModelsDeps, 'database' | 'feed' | 'clock' | 'upstreamSecret' | 'connectUpstream'>,
  ): ModelsRpc<'importCatalog'> =>
  async (request, context) => {
    const operator = operatorOrStart(context);
    checkModels(deps, request.models);
    const changes = request.dryRun || request.onlyNew ? [] : changesOfKnown(deps.feed.snapshot, request.models);
    const statusOf = await probeMoved(deps.connectUpstream, changes, context.signal);
    try {
      const counts = await changeCatalogBy(deps, operator, async (em, now) => {
        const promises = await standingPromises(em);
        const models = request.onlyNew ? await neverKnown(em, request.models) : request.models;
        const done = await importModels(em, models, statusOf, now);
        if (request.dryRun) {
          await keepPromises(em, promises);
          throw new DryRun(done);
        }
        return { answer: done, audit: isChange(done) ? importAudits(models, done) : null };
      });
      return create(ImportCatalogResponseSchema, counts);
    } catch (thrown) {
      if (!(thrown instanceof DryRun)) throw thrown;
      return create(ImportCatalogResponseSchema, thrown.counts);
    }
  };

/** Refuses what no model or deployment can be, and anything named twice, since nobody can tell which of the two is meant. */
function checkModels(deps: Pick<ModelsDeps, 'upstreamSecret'>, models: readonly ImportedModel[]): void {
  const named = new Set<string>();
  const note = (name: string) => {
    if (named.has(name)) throw invalidRequest('models', `${name} is named twice.`, 'invalid_value');
    named.add(name);
  };
  for (const [index, { name, settings, deployments }] of models.entries()) {
    note(`\`${name}\``);
    at(`models[${index}]`, () => modelChanges(settings!));
    for (const [place, deployment] of deployments.entries()) {
      const { baseUrl, upstreamModel } = at(`models[${index}].deployments[${place}]`, () => {
        const address = addressOf(deployment, name);
        requireSandboxModel(address);
        requireSecret(deps, deployment.secretReference);
        return address;
      });
      note(`The deployment of \`${name}\` at ${baseUrl} as \`${upstreamModel}\``);
    }
  }
}

/** Lets a refusal begin with its place: a file may name thousands of models. */
function at<Checked>(place: string, check: () => Checked): Checked {
  try {
    return check();
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown;
    throw gatewayError(thrown.reason, `\`${place}\`: ${thrown.message}`, thrown.details);
  }
}

/** What an import changes of deployments that there are. */
function changesOfKnown(
  snapshot: ModelsDeps['feed']['snapshot'],
  imported: readonly ImportedModel[],
): DeploymentChange[] {
  const known = new Map(snapshot.models.map(({ model, deployments }) => [model!.name, deployments]));
  return imported.flatMap(({ name, deployments }) =>
    deployments.flatMap((settings) => {
      const address = addressOf(settings, name);
      const deployment = known.get(name)?.find((one) => isAt(keptAddressOf(one.settings!, name), address));
      return deployment === undefined ? [] : [{ deployment, changes: importedChanges(settings) }];
    }),
  );
}

/** The models whose names are new: no model has or had them. */
async function neverKnown(em: SqlEntityManager, models: readonly ImportedModel[]): Promise<ImportedModel[]> {
  const known = await em.find(ModelEntity, { name: { $in: models.map(({ name }) => name) } });
  const names = new Set(known.map(({ name }) => name));
  return models.filter(({ name }) => !names.has(name));
}

const importAudits = (models: readonly ImportedModel[], done: ImportCounts) =>
  auditsOfModels(
    models.map(({ name }) => name),
    {
      type: 'catalog_imported',
      target: { type: 'catalog', id: '' },
      after: {
        models_created: done.modelsCreated,
        models_updated: done.modelsUpdated,
        deployments_created: done.deploymentsCreated,
        deployments_updated: done.deploymentsUpdated,
        prices_created: done.pricesCreated,
      },
    },
  );

/** Rolls back the transaction of a dry run, and carries its result out of it. */
class DryRun extends Error {
  readonly counts: ImportCounts;

  constructor(counts: ImportCounts) {
    super();
    this.counts = counts;
  }
}
