import { type Static, Type } from 'typebox';
import type { User } from '#gen/modelgateway/auth/v1/user_pb.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idFilter, idSchema, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { idInPath } from '../id-in-path.ts';
import { memberJson, memberSchema, readUserIds, userIdsSchema } from '../user-json.ts';

/** The users of all organizations, for operators. */
export const adminUserRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/users',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the users of all organizations',
        description: 'Oldest first.',
        response: { 200: pageOf(adminUserSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          tenant_id: idFilter(),
          search: Type.Optional(
            Type.String({ maxLength: 255, description: 'Part of their address or name, or their id.' }),
          ),
          user_ids: userIdsSchema,
        }),
      },
    },
    async (request) => {
      const { page, limit, tenant_id: tenantId, search, user_ids: ids } = request.query;
      const answer = await auth.adminListUsers(
        { page: { page, limit }, tenantId, search, userIds: readUserIds(ids) },
        asCaller(request),
      );
      return { data: answer.users.map(adminUserJson), pagination: paginationJson(answer.page) };
    },
  );

  app.patch(
    '/api/v1/admin/users/:user_id',
    {
      config: operatorOnly,
      schema: {
        summary: 'Change a user',
        description:
          'A deactivated user is signed out, and their API keys are refused. The last platform operator cannot be deactivated or demoted (409). Another address is told to the user at both addresses, and need not be confirmed; one that another active user has gets a 409.',
        response: { 200: adminUserSchema },
        params: Type.Object({ user_id: idSchema }),
        body: onlyFields({
          is_active: Type.Optional(Type.Boolean()),
          operator: Type.Optional(Type.Boolean()),
          email: Type.Optional(Type.String({ format: 'email', maxLength: 254 })),
        }),
      },
    },
    async (request) => {
      const { is_active: isActive, operator, email } = request.body;
      const { user } = await auth.adminUpdateUser(
        { userId: idInPath(request.params.user_id, 'user'), isActive, operator, email },
        asCaller(request),
      );
      return adminUserJson(user!);
    },
  );
};

export const adminUserSchema = Type.Object(
  { ...memberSchema.properties, operator: Type.Boolean({ description: 'Whether they are a platform operator.' }) },
  { $id: 'AdminUser' },
);
const adminUserJson = (user: User): Static<typeof adminUserSchema> => ({
  ...memberJson(user),
  operator: user.operator,
});
