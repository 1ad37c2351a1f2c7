import type { Routes } from '../../app.ts';
import { adminKeyRoutes } from './admin/keys.ts';
import { keyQuotaRoutes } from './admin/organizations/key-quota.ts';
import { keyCollectionRoutes } from './api-keys/collection.ts';
import { keyRoutes } from './api-keys/key.ts';
import { keyRotationRoutes } from './api-keys/rotate.ts';

/** All routes about API keys: each user's own in a session (service.md, API key management), and the operators'. */
export const apiKeyRoutes: Routes = (app, deps) => {
  keyCollectionRoutes(app, deps);
  keyRoutes(app, deps);
  keyRotationRoutes(app, deps);
  adminKeyRoutes(app, deps);
  keyQuotaRoutes(app, deps);
};
