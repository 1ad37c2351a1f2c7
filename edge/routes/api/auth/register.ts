import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { Routes } from '../../../app.ts';
import { errorBodySchema } from '../../../openai/errors.ts';

/** Self-service registration is unavailable (service.md, Authentication endpoints), whatever the body says. */
export const registerRoutes: Routes = (app) => {
  app.post(
    '/api/v1/auth/register',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Register',
        description: 'Registration is unavailable: new users join by invitation.',
        response: { 503: errorBodySchema },
      },
      onRequest: (_request, _reply, done) =>
        done(
          gatewayError(
            ErrorReason.REGISTRATION_UNAVAILABLE,
            'Self-service registration is unavailable: new users join by invitation.',
          ),
        ),
    },
    () => undefined,
  );
};
