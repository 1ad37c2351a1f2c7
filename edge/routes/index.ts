import type { EdgeApp, RouteDeps } from '../app.ts';
import { descriptionRoute } from '../http/api-description.ts';
import { inferenceBytesMax, managementBodies, rawJsonBodies } from '../http/bodies.ts';
import { registerHealth } from '../http/health.ts';
import { methodNotAllowed } from '../http/method-not-allowed.ts';
import { spooledForms } from '../http/uploads.ts';
import { refuseUnknownParameters } from '../http/validation.ts';
import { announceRetirementOnErrors } from '../inference/errors.ts';
import { installWebSockets } from '../realtime/web-sockets.ts';
import { adminCallRoutes } from './api/admin/calls.ts';
import { catalogAdminRoutes } from './api/admin/catalog.ts';
import { apiKeyRoutes } from './api/api-keys/index.ts';
import { billingRoutes } from './api/billing/index.ts';
import { identityRoutes } from './api/identity.ts';
import { jobRoutes } from './api/jobs/index.ts';
import { rateLimitRoutes } from './api/rate-limits.ts';
import { usageRoutes } from './api/usage/index.ts';
import { retirementPageRoutes } from './retirements.ts';
import { speechRoutes } from './v1/audio/speech.ts';
import { transcriptionRoutes } from './v1/audio/transcriptions.ts';
import { translationRoutes } from './v1/audio/translations.ts';
import { chatCompletionRoutes } from './v1/chat/completions.ts';
import { completionRoutes } from './v1/completions.ts';
import { embeddingRoutes } from './v1/embeddings.ts';
import { imageGenerationRoutes } from './v1/images/generations.ts';
import { modelRoutes } from './v1/models.ts';
import { clientSecretRoutes } from './v1/realtime/client-secrets.ts';
import { realtimeRoutes } from './v1/realtime.ts';

/**
 * The contents page of the API. Inference routes keep their bodies as bytes, or in a file; management routes take JSON. Each file declares
 * its paths with their access rules.
 */
export async function registerRoutes(app: EdgeApp, deps: RouteDeps): Promise<void> {
  const paths = methodNotAllowed(app);
  registerHealth(app, deps.readiness, deps.metricsText);
  descriptionRoute(app);

  await app.register(async (inference: EdgeApp) => {
    rawJsonBodies(inference, inferenceBytesMax);
    announceRetirementOnErrors(inference, deps);
    chatCompletionRoutes(inference, deps);
    completionRoutes(inference, deps);
    embeddingRoutes(inference, deps);
    imageGenerationRoutes(inference, deps);
    speechRoutes(inference, deps);
  });

  await app.register(async (uploads: EdgeApp) => {
    await spooledForms(uploads, deps.uploadsDir, { onNoRoom: () => deps.metrics.shed('disk') });
    announceRetirementOnErrors(uploads, deps);
    transcriptionRoutes(uploads, deps);
    translationRoutes(uploads, deps);
  });

  await app.register(async (realtime: EdgeApp) => {
    await installWebSockets(realtime);
    managementBodies(realtime);
    clientSecretRoutes(realtime, deps);
    realtimeRoutes(realtime, deps);
  });

  await app.register(async (management: EdgeApp) => {
    managementBodies(management);
    modelRoutes(management, deps);
    retirementPageRoutes(management, deps);
    // Clients of OpenAI may add parameters of their own to all that stands above.
    refuseUnknownParameters(management);
    apiKeyRoutes(management, deps);
    identityRoutes(management, deps);
    catalogAdminRoutes(management, deps);
    usageRoutes(management, deps);
    adminCallRoutes(management, deps);
    billingRoutes(management, deps);
    rateLimitRoutes(management, deps);
    jobRoutes(management, deps);
  });

  await app.register(async (rest: EdgeApp) => paths.close(rest));
}
