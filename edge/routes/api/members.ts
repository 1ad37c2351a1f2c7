import { Type } from 'typebox';
import { roleNamed } from '#shared/session-token.ts';
import type { Routes } from '../../app.ts';
import { asCaller } from '../../caller.ts';
import { onlyFields } from '../../http/bodies.ts';
import { idSchema, pageOf, pageQuerySchema, paginationJson } from '../../http/json.ts';
import { idInPath } from './id-in-path.ts';
import { memberJson, memberSchema, readUserIds, roleSchema, userIdsSchema } from './user-json.ts';

/** The users of the caller's organization (decisions.md, Auth): admins and owners, sessions only. */
export const memberRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/members',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'List members',
        description: 'Oldest first.',
        response: { 200: pageOf(memberSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          search: Type.Optional(
            Type.String({ maxLength: 255, description: 'Part of their address or name, or their id.' }),
          ),
          user_ids: userIdsSchema,
        }),
      },
    },
    async (request) => {
      const { page, limit, search, user_ids: ids } = request.query;
      const answer = await auth.listMembers(
        { page: { page, limit }, search, userIds: readUserIds(ids) },
        asCaller(request),
      );
      return { data: answer.members.map(memberJson), pagination: paginationJson(answer.page) };
    },
  );

  app.patch(
    '/api/v1/members/:user_id',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'Change a member',
        response: { 200: memberSchema },
        params: Type.Object({ user_id: idSchema }),
        body: onlyFields({ role: Type.Optional(roleSchema), is_active: Type.Optional(Type.Boolean()) }),
      },
    },
    async (request) => {
      const { role, is_active: isActive } = request.body;
      const { member } = await auth.updateMember(
        { userId: idInPath(request.params.user_id, 'user'), role: roleNamed(role), isActive },
        asCaller(request),
      );
      return memberJson(member!);
    },
  );
};
