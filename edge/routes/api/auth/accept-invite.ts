import { Type } from 'typebox';
import { roleName } from '#shared/session-token.ts';
import { asAnonymous } from '../../../caller.ts';
import { noStore } from '../../../http/no-store.ts';
import { nullable } from '../../../http/nullable.ts';
import type { Routes } from '../../routes.ts';
import { userJson } from '../user-json.ts';
import { passwordSchema } from './login.ts';

/** Accepting an invitation (service.md, Invitation flow). The token alone says who is meant. */
export const acceptInviteRoutes: Routes = (app, { auth }) => {
  app.post(
    '/api/v1/auth/accept-invite',
    {
      config: { access: { surface: 'public' } },
      schema: {
        body: Type.Object(
          {
            token: Type.String({ minLength: 1, maxLength: 512 }),
            password: passwordSchema,
            first_name: Type.String({ maxLength: 100 }),
            last_name: Type.String({ maxLength: 100 }),
            phone: nullable(Type.String({ maxLength: 50 })),
            organization_name: nullable(Type.String({ maxLength: 255 })),
            // No longer published, still accepted, without effect (service.md, Versioning).
            email: Type.Optional(Type.Unknown()),
          },
          { additionalProperties: false },
        ),
      },
    },
    async (request, reply) => {
      const body = request.body;
      const { user, organizationName } = await auth.acceptInvitation(
        {
          token: body.token,
          password: body.password,
          firstName: body.first_name,
          lastName: body.last_name,
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
