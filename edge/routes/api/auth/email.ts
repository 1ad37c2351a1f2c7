import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { profileJson, profileSchema } from '../user-json.ts';
import { passwordSchema } from './password-schemas.ts';

/** The caller's own change of the address with which they sign in. */
export const emailRoutes: Routes = (app, { auth }) => {
  app.post(
    '/api/v1/auth/email/change',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Ask for another email address',
        description:
          'Emails a token to the new address, which works once, within an hour, and says so to the present one. Until the new address is confirmed nothing changes.',
        response: { 202: Type.Object({ message: Type.String() }) },
        body: onlyFields({
          email: Type.String({ format: 'email', maxLength: 254, description: 'The new address.' }),
          current_password: passwordSchema,
        }),
      },
    },
    async (request, reply) => {
      const { email, current_password: currentPassword } = request.body;
      await auth.requestEmailChange({ email, currentPassword }, asCaller(request));
      return reply.code(202).send({ message: 'An email is on its way to the new address. Confirm it within an hour.' });
    },
  );

  app.post(
    '/api/v1/auth/email/confirm',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Confirm the new email address',
        description:
          'From then on the user signs in with it. Sessions and API keys go on; links in earlier emails do not work any more.',
        response: { 200: profileSchema },
        body: onlyFields({ token: Type.String({ minLength: 1, maxLength: 512, description: 'From the email.' }) }),
      },
    },
    async (request) => {
      const answer = await auth.confirmEmailChange({ token: request.body.token }, asCaller(request));
      return profileJson(answer.user!, answer.organization!);
    },
  );
};
