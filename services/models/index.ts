import type { ServiceImpl } from '@connectrpc/connect';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { ModelsDeps } from './deps.ts';
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
import { withdrawPrice } from './rpc/withdraw-price.ts';
import { withdrawRetirement } from './rpc/withdraw-retirement.ts';

/** The catalog: models, deployments, prices, grants and retirements. */
export const modelsService = (deps: ModelsDeps): ServiceImpl<typeof ModelsService> => ({
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
  withdrawPrice: withdrawPrice(deps),
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
