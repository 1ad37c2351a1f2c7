import type { ServiceImpl } from '@connectrpc/connect';
import type { DeploymentSettings } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { CatalogFeed } from './catalog/catalog-feed.ts';
import { getModel } from './rpc/get-model.ts';
import { importCatalog } from './rpc/import-catalog.ts';
import { listDeprecations } from './rpc/list-deprecations.ts';
import { listModels } from './rpc/list-models.ts';
import { registerUpstream } from './rpc/register-upstream.ts';
import { watchCatalog } from './rpc/watch-catalog.ts';
import type { Upstream } from './upstream/upstream.ts';

export type ModelsDeps = {
  database: ServiceDatabase;
  feed: CatalogFeed;
  clock: Clock;
  /** Connects to what a deployment's settings name; the caller closes it. */
  connectUpstream(settings: DeploymentSettings): Upstream;
};

/** The catalog: models, deployments, prices, grants and retirements. */
export const modelsService = (deps: ModelsDeps): Partial<ServiceImpl<typeof ModelsService>> => ({
  watchCatalog: watchCatalog(deps),
  listModels: listModels(deps),
  getModel: getModel(deps),
  listDeprecations: listDeprecations(deps),
  importCatalog: importCatalog(deps),
  registerUpstream: registerUpstream(deps),
});
