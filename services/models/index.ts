import type { ServiceImpl } from '@connectrpc/connect';
import type { DeploymentSettings } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { CatalogFeed } from './catalog/catalog-feed.ts';
import { adminListModels } from './rpc/admin-list-models.ts';
import { announceRetirement } from './rpc/announce-retirement.ts';
import { createDeployment } from './rpc/create-deployment.ts';
import { createModel } from './rpc/create-model.ts';
import { deleteDeployment } from './rpc/delete-deployment.ts';
import { deleteModel } from './rpc/delete-model.ts';
import { getModel } from './rpc/get-model.ts';
import { getPrices } from './rpc/get-prices.ts';
import { grantModel } from './rpc/grant-model.ts';
import { importCatalog } from './rpc/import-catalog.ts';
import { listDeprecations } from './rpc/list-deprecations.ts';
import { listModels } from './rpc/list-models.ts';
import { listReminders } from './rpc/list-reminders.ts';
import { listRetirements } from './rpc/list-retirements.ts';
import { registerUpstream } from './rpc/register-upstream.ts';
import { reportDeploymentHealth } from './rpc/report-deployment-health.ts';
import { revokeGrant } from './rpc/revoke-grant.ts';
import { setPrice } from './rpc/set-price.ts';
import { setSunsetDate } from './rpc/set-sunset-date.ts';
import { updateDeployment } from './rpc/update-deployment.ts';
import { updateModel } from './rpc/update-model.ts';
import { watchCatalog } from './rpc/watch-catalog.ts';
import { withdrawRetirement } from './rpc/withdraw-retirement.ts';
import type { Upstream } from './upstream/upstream.ts';

export type ModelsDeps = {
  database: ServiceDatabase;
  feed: CatalogFeed;
  clock: Clock;
  /** Connects to what a deployment's settings name; the caller closes it. */
  connectUpstream(settings: DeploymentSettings): Upstream;
  /** A retirement was announced, dated, moved or withdrawn: whoever writes to its users should look. */
  onRetirementChange(): void;
};

/** The catalog: models, deployments, prices, grants and retirements. */
export const modelsService = (deps: ModelsDeps): Partial<ServiceImpl<typeof ModelsService>> => ({
  // Everybody who may know of a model.
  listModels: listModels(deps),
  getModel: getModel(deps),
  listDeprecations: listDeprecations(deps),

  // Platform operators.
  adminListModels: adminListModels(deps),
  createModel: createModel(deps),
  updateModel: updateModel(deps),
  deleteModel: deleteModel(deps),
  createDeployment: createDeployment(deps),
  updateDeployment: updateDeployment(deps),
  deleteDeployment: deleteDeployment(deps),
  setPrice: setPrice(deps),
  grantModel: grantModel(deps),
  revokeGrant: revokeGrant(deps),
  announceRetirement: announceRetirement(deps),
  setSunsetDate: setSunsetDate(deps),
  withdrawRetirement: withdrawRetirement(deps),
  listRetirements: listRetirements(deps),
  listReminders: listReminders(deps),
  importCatalog: importCatalog(deps),
  registerUpstream: registerUpstream(deps),

  // Services.
  watchCatalog: watchCatalog(deps),
  getPrices: getPrices(deps),
  reportDeploymentHealth: reportDeploymentHealth(deps),
});
