import { Type } from 'typebox';
import { GatewayError, invalidRequest } from '#shared/errors.ts';
import type { Routes } from '../../../app.ts';
import { asAnonymous, asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { noBody } from '../../../http/json.ts';
import { newPasswordSchema, passwordSchema } from './password-schemas.ts';

/** Forgotten, reset and changed passwords (decisions.md, Auth). */
export const passwordRoutes: Routes = (app, { auth }) => {
  app.post(
    '/api/v1/auth/password/forgot',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Ask for a new password',
        description: 'Emails a token for a single reset, if there is an account with this address.',
        response: { 202: Type.Object({ message: Type.String() }) },
        body: onlyFields({ email: Type.String({ minLength: 1, maxLength: 254 }) }),
      },
    },
    async (request, reply) => {
      await auth.forgotPassword({ email: request.body.email }, asAnonymous(request));
      return reply.code(202).send({ message: 'If there is an account with this address, an email is on its way.' });
    },
  );

  app.post(
    '/api/v1/auth/password/reset',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Reset the password',
        response: { 204: noBody('The password is changed.') },
        body: onlyFields({
          token: Type.String({ minLength: 1, maxLength: 512, description: 'From the email.' }),
          password: newPasswordSchema,
        }),
      },
    },
    async (request, reply) => {
      const { token, password } = request.body;
      try {
        await auth.resetPassword({ token, newPassword: password }, asAnonymous(request));
      } catch (error) {
        // The field has another name in this endpoint.
        if (error instanceof GatewayError && error.details.param === 'new_password') {
          throw invalidRequest('password', error.message.replace('`new_password`', '`password`'), error.details.code);
        }
        throw error;
      }
      return reply.code(204).send();
    },
  );

  app.put(
    '/api/v1/auth/password',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Change the password',
        response: { 204: noBody('The password is changed.') },
        body: onlyFields({ current_password: passwordSchema, new_password: newPasswordSchema }),
      },
    },
    async (request, reply) => {
      const { current_password: currentPassword, new_password: newPassword } = request.body;
      await auth.changePassword({ currentPassword, newPassword }, asCaller(request));
      return reply.code(204).send();
    },
  );
};
