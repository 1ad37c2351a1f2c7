import { Type } from 'typebox';
import { roleName } from '#shared/session-token.ts';
import type { Routes } from '../../../app.ts';
import { asAnonymous } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { isoTime, isoTimeSchema } from '../../../http/json.ts';
import { noStore } from '../../../http/no-store.ts';
import { orNull } from '../../../http/nullable.ts';
import { roleSchema } from '../user-json.ts';

export const invitedToSchema = Type.Object({
  email: Type.String({ format: 'email', description: 'The address with which the invited person will log in.' }),
  role: roleSchema,
  organization: orNull(
    Type.Object({ name: Type.String() }, { description: 'Null if accepting creates an organization.' }),
  ),
  expires_at: isoTimeSchema,
});

/** What an invitation is to, for the page on which it is accepted. A POST, since the token is a secret and belongs in no address. */
export const invitedToRoutes: Routes = (app, { auth }) => {
  app.post(
    '/api/v1/auth/invitation',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Read an invitation',
        description: 'By the token from its email, while it can be accepted.',
        response: { 200: invitedToSchema },
        body: onlyFields({ token: Type.String({ minLength: 1, maxLength: 512, description: 'From the email.' }) }),
      },
    },
    async (request, reply) => {
      const { invitation, organizationName } = await auth.getInvitation(
        { token: request.body.token },
        asAnonymous(request),
      );
      const { email, role, tenantId, expiresAt } = invitation!;
      const organization = tenantId === '' ? null : { name: organizationName };
      return noStore(reply).send({ email, role: roleName(role), organization, expires_at: isoTime(expiresAt!) });
    },
  );
};
