import { Type } from 'typebox';
import { roleNamed } from '#shared/session-token.ts';
import { operatorOnly } from '../../../../access.ts';
import type { Routes } from '../../../../app.ts';
import { asCaller } from '../../../../caller.ts';
import { idempotencyKey } from '../../../../http/idempotency-key.ts';
import { idSchema, noBody, pageOf } from '../../../../http/json.ts';
import { idInPath } from '../../id-in-path.ts';
import {
  invitationFilter,
  invitationJson,
  invitationSchema,
  invitationsJson,
  invitationsQuerySchema,
  invitedSchema,
} from '../../invitations.ts';
import { organizationId } from '../organization-id.ts';

const params = Type.Object({ tenant_id: idSchema });

/** GET and POST /api/v1/admin/organizations/{tenant_id}/invitations, and DELETE of one: for an organization that has no owner left. */
export const adminInvitationRoutes: Routes = (app, { auth }) => {
  const path = '/api/v1/admin/organizations/:tenant_id/invitations';

  app.get(
    path,
    {
      config: operatorOnly,
      schema: {
        summary: 'List the invitations of an organization',
        description: 'Newest first.',
        response: { 200: pageOf(invitationSchema) },
        params,
        querystring: invitationsQuerySchema,
      },
    },
    async (request) => {
      const filter = { tenantId: organizationId(request.params.tenant_id), ...invitationFilter(request.query) };
      return invitationsJson(await auth.adminListInvitations(filter, asCaller(request)));
    },
  );

  app.post(
    path,
    {
      config: operatorOnly,
      schema: {
        summary: 'Invite somebody to an organization',
        description:
          'Emails a one-time token. The role is `member` by default. More than one invitation a minute to the same address gets 429.',
        idempotent: true,
        response: { 201: invitationSchema },
        params,
        body: invitedSchema,
      },
    },
    async (request, reply) => {
      const { email, role } = request.body;
      const { invitation } = await auth.adminCreateInvitation(
        {
          tenantId: organizationId(request.params.tenant_id),
          email: email.trim(),
          role: roleNamed(role),
          idempotencyKey: idempotencyKey(request),
        },
        asCaller(request),
      );
      return reply.code(201).send(invitationJson(invitation!));
    },
  );

  app.delete(
    `${path}/:invitation_id`,
    {
      config: operatorOnly,
      schema: {
        summary: 'Withdraw an invitation to an organization',
        description: 'Withdrawing again changes nothing. One that was accepted is a conflict (409).',
        params: Type.Object({ tenant_id: idSchema, invitation_id: idSchema }),
        response: { 204: noBody('The token no longer works.') },
      },
    },
    async (request, reply) => {
      await auth.adminDeleteInvitation(
        {
          tenantId: organizationId(request.params.tenant_id),
          invitationId: idInPath(request.params.invitation_id, 'invitation'),
        },
        asCaller(request),
      );
      return reply.code(204).send();
    },
  );
};
