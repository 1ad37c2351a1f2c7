import { managementBodies, rawJsonBodies } from '../http/bodies.ts';
import { methodNotAllowed } from '../http/method-not-allowed.ts';
import { announceRetirementOnErrors } from '../inference/errors.ts';
import { apiKeyRoutes } from './api/api-keys.ts';
import { identityRoutes } from './api/identity.ts';
import { usageRoutes } from './api/usage/index.ts';
import type { EdgeApp, RouteDeps } from './routes.ts';
import { chatCompletionRoutes } from './v1/chat/completions.ts';
import { modelRoutes } from './v1/models.ts';

/**
 * The contents page of the API. Inference routes keep their bodies as bytes; management routes take JSON. Each file declares
 * its paths with their access rules.
 */
export async function registerRoutes(app: EdgeApp, deps: RouteDeps): Promise<void> {
  const paths = methodNotAllowed(app);

  await app.register(async (inference: EdgeApp) => {
    rawJsonBodies(inference);
    announceRetirementOnErrors(inference, deps);
    chatCompletionRoutes(inference, deps);
  });

  await app.register(async (management: EdgeApp) => {
    managementBodies(management);
    modelRoutes(management, deps);
    apiKeyRoutes(management, deps);
    identityRoutes(management, deps);
    usageRoutes(management, deps);
  });

  await app.register(async (rest: EdgeApp) => paths.close(rest));
}
