import { roleNamed } from '#shared/session-token.ts';
import { invitationJson, invitationStatuses } from '../../../edge/routes/api/invitations.ts';
import {
  type AdminCommand,
  argument,
  choice,
  idempotencyKeyOf,
  idempotencyOptions,
  pageOf,
  pageOptions,
} from './command.ts';

export const invitationCommands: readonly AdminCommand[] = [
  {
    name: 'invitations list',
    usage: `[organization] [--status ${invitationStatuses.names.join('|')}] [--page n] [--limit n]`,
    summary: 'Lists the invitations to an organization. Without one: of owners whose organization does not exist yet.',
    options: { ...pageOptions, status: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const status = invitationStatuses.value(choice(args, 'status', invitationStatuses.names));
      const tenantId = args.positionals.length === 0 ? '' : argument(args, 0, "the organization's id");
      const request = { tenantId, page: pageOf(args), status };
      const { invitations, page } = await auth.adminListInvitations(request, asOperator);
      const columns = ['id', 'email', 'role', 'status', 'created_at', 'expires_at'];
      return { output: invitations.map(invitationJson), page, columns };
    },
  },
  {
    name: 'invitations create',
    usage: '<organization> <email> [--role member|admin|owner] [--idempotency-key text]',
    summary: 'Emails somebody an invitation to an organization, as a member by default.',
    options: { ...idempotencyOptions, role: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const request = {
        tenantId: argument(args, 0, "the organization's id"),
        email: argument(args, 1, 'the email address'),
        role: roleNamed(choice(args, 'role', ['member', 'admin', 'owner'])),
        idempotencyKey: idempotencyKeyOf(args),
      };
      const { invitation } = await auth.adminCreateInvitation(request, asOperator);
      return { output: invitationJson(invitation!) };
    },
  },
  {
    name: 'invitations withdraw',
    usage: '[organization] <invitation>',
    summary: 'Withdraws an invitation: its token no longer works. Leave out an organization that does not exist yet.',
    async run({ auth, asOperator }, args) {
      const isOfNone = args.positionals.length === 1;
      const request = {
        tenantId: isOfNone ? '' : argument(args, 0, "the organization's id"),
        invitationId: argument(args, isOfNone ? 0 : 1, "the invitation's id"),
      };
      await auth.adminDeleteInvitation(request, asOperator);
      return { output: { id: request.invitationId, status: 'withdrawn' } };
    },
  },
];
