import { type Static, Type } from 'typebox';
import {
  type Invitation,
  InvitationStatus,
  type ListInvitationsResponse,
} from '#gen/modelgateway/auth/v1/invitation_pb.ts';
import { roleName, roleNamed } from '#shared/session-token.ts';
import type { Routes } from '../../app.ts';
import { asCaller } from '../../caller.ts';
import { onlyFields } from '../../http/bodies.ts';
import { idempotencyKey } from '../../http/idempotency-key.ts';
import { idSchema, isoTime, isoTimeSchema, noBody, pageOf, pageQuerySchema, paginationJson } from '../../http/json.ts';
import { orNull } from '../../http/nullable.ts';
import { spelling } from '../../http/spelling.ts';
import { idInPath } from './id-in-path.ts';
import { roleSchema } from './user-json.ts';

export const invitationStatuses = spelling({
  pending: InvitationStatus.PENDING,
  accepted: InvitationStatus.ACCEPTED,
  expired: InvitationStatus.EXPIRED,
  withdrawn: InvitationStatus.WITHDRAWN,
});

/** Whom to invite. */
export const invitedSchema = onlyFields({
  email: Type.String({ format: 'email', minLength: 3, maxLength: 254 }),
  role: Type.Optional(roleSchema),
});

/** Which invitations to list. */
export const invitationsQuerySchema = Type.Object({
  ...pageQuerySchema,
  status: Type.Optional(invitationStatuses.schema),
});
export const invitationFilter = ({ page, limit, status }: Static<typeof invitationsQuerySchema>) => ({
  page: { page, limit },
  status: invitationStatuses.value(status),
});

/** Invitations to the caller's organization (decisions.md, Auth): admins and owners, sessions only. */
export const invitationRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/invitations',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'List invitations',
        description: 'Newest first.',
        response: { 200: pageOf(invitationSchema) },
        querystring: invitationsQuerySchema,
      },
    },
    async (request) => invitationsJson(await auth.listInvitations(invitationFilter(request.query), asCaller(request))),
  );

  app.post(
    '/api/v1/invitations',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'Invite somebody',
        description:
          'Emails a one-time token. The role is `member` by default; only an owner can invite owners. More than 100 invitations an hour, or one a minute to the same address, get 429. While 100 are pending, another one gets 409.',
        idempotent: true,
        response: { 201: invitationSchema },
        body: invitedSchema,
      },
    },
    async (request, reply) => {
      const { email, role } = request.body;
      const { invitation } = await auth.createInvitation(
        { email: email.trim(), role: roleNamed(role), idempotencyKey: idempotencyKey(request) },
        asCaller(request),
      );
      return reply.code(201).send(invitationJson(invitation!));
    },
  );

  app.delete(
    '/api/v1/invitations/:invitation_id',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'Withdraw an invitation',
        description: 'Withdrawing again changes nothing. One that was accepted is a conflict (409).',
        params: Type.Object({ invitation_id: idSchema }),
        response: { 204: noBody('The token no longer works.') },
      },
    },
    async (request, reply) => {
      await auth.deleteInvitation(
        { invitationId: idInPath(request.params.invitation_id, 'invitation') },
        asCaller(request),
      );
      return reply.code(204).send();
    },
  );
};

/** An invitation; its token is in the mail alone. */
export const invitationSchema = Type.Object(
  {
    id: idSchema,
    email: Type.String(),
    role: roleSchema,
    status: invitationStatuses.schema,
    created_at: isoTimeSchema,
    expires_at: isoTimeSchema,
    accepted_at: orNull(isoTimeSchema),
    invited_by_user_id: orNull(idSchema),
  },
  { $id: 'Invitation' },
);
export const invitationJson = (invitation: Invitation): Static<typeof invitationSchema> => ({
  id: invitation.id,
  email: invitation.email,
  role: roleName(invitation.role),
  status: invitationStatuses.name(invitation.status),
  created_at: isoTime(invitation.createdAt!),
  expires_at: isoTime(invitation.expiresAt!),
  accepted_at: isoTime(invitation.acceptedAt),
  invited_by_user_id: invitation.invitedByUserId || null,
});

/** A page of invitations. */
export const invitationsJson = ({ invitations, page }: Pick<ListInvitationsResponse, 'invitations' | 'page'>) => ({
  data: invitations.map(invitationJson),
  pagination: paginationJson(page),
});
