import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { idSchema, noBody, pageOf } from '../../../http/json.ts';
import { idInPath } from '../id-in-path.ts';
import { invitationFilter, invitationSchema, invitationsJson, invitationsQuerySchema } from '../invitations.ts';

/** GET /api/v1/admin/invitations, and DELETE of one: of owners whose organization is created when they accept. */
export const foundingInvitationRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/invitations',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the invitations that create an organization',
        description: 'Newest first. Those to an organization that exists are listed there.',
        response: { 200: pageOf(invitationSchema) },
        querystring: invitationsQuerySchema,
      },
    },
    async (request) =>
      invitationsJson(await auth.adminListInvitations(invitationFilter(request.query), asCaller(request))),
  );

  app.delete(
    '/api/v1/admin/invitations/:invitation_id',
    {
      config: operatorOnly,
      schema: {
        summary: 'Withdraw an invitation that creates an organization',
        description: 'Withdrawing again changes nothing. One that was accepted is a conflict (409).',
        params: Type.Object({ invitation_id: idSchema }),
        response: { 204: noBody('The token no longer works.') },
      },
    },
    async (request, reply) => {
      await auth.adminDeleteInvitation(
        { invitationId: idInPath(request.params.invitation_id, 'invitation') },
        asCaller(request),
      );
      return reply.code(204).send();
    },
  );
};
