import { Type } from 'typebox';
import { roleName } from '#shared/session-token.ts';
import type { Routes } from '../../../app.ts';
import { asAnonymous } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idSchema } from '../../../http/json.ts';
import { noStore } from '../../../http/no-store.ts';
import { nullable } from '../../../http/nullable.ts';
import { roleSchema, userJson, userSchema } from '../user-json.ts';
import { newPasswordSchema } from './password-schemas.ts';

/** Accepting an invitation (service.md, Invitation flow). The token alone identifies the invited person. */
export const acceptInviteRoutes: Routes = (app, { auth }) => {
  app.post(
    '/api/v1/auth/accept-invite',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Accept an invitation',
        description: 'Creates the account of the person to whom the token was mailed, who can then log in.',
        response: {
          201: Type.Object({
            user: userSchema,
            organization: Type.Object({ id: idSchema, name: Type.String(), role: roleSchema }),
          }),
        },
        body: onlyFields({
          token: Type.String({ minLength: 1, maxLength: 512, description: 'From the email.' }),
          password: newPasswordSchema,
          first_name: nullable(Type.String({ maxLength: 100 })),
          last_name: nullable(Type.String({ maxLength: 100 })),
          phone: nullable(Type.String({ maxLength: 50 })),
          organization_name: nullable(
            Type.String({ maxLength: 255, description: 'Required if the invitation creates an organization.' }),
          ),
          // No longer published; still accepted, and ignored (service.md, Versioning).
          email: Type.Optional(Type.Unknown({ deprecated: true })),
        }),
      },
    },
    async (request, reply) => {
      const body = request.body;
      const { user, organizationName } = await auth.acceptInvitation(
        {
          token: body.token,
          password: body.password,
          firstName: body.first_name ?? '',
          lastName: body.last_name ?? '',
          phone: body.phone ?? '',
          organizationName: body.organization_name ?? '',
        },
        asAnonymous(request),
      );
      const organization = { id: user!.tenantId, name: organizationName, role: roleName(user!.role) };
      return noStore(reply)
        .code(201)
        .send({ user: userJson(user!), organization });
    },
  );
};
