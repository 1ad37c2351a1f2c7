import type { Routes } from '../../../app.ts';
import { adminKeyRoutes } from '../admin/keys.ts';
import { keyQuotaRoutes } from '../admin/organizations/key-quota.ts';
import { keyCollectionRoutes } from './collection.ts';
import { keyRoutes } from './key.ts';
import { keyRotationRoutes } from './rotate.ts';

/** All routes about API keys: each user's own in a session (service.md, API key management), and the operators'. */
export const apiKeyRoutes: Routes = (app, deps) => {
  keyCollectionRoutes(app, deps);
  keyRoutes(app, deps);
  keyRotationRoutes(app, deps);
  adminKeyRoutes(app, deps);
  keyQuotaRoutes(app, deps);
};
