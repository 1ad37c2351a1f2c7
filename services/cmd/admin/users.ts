import type { User } from '#gen/modelgateway/auth/v1/user_pb.ts';
import { roleName } from '#shared/session-token.ts';
import { type AdminCommand, argument, pageOf, pageOptions, textOption } from './command.ts';
import { timeText } from './time.ts';

const changes: readonly [verb: string, summary: string, change: { isActive?: boolean; operator?: boolean }][] = [
  ['deactivate', 'Ends all sessions of a user and refuses their keys.', { isActive: false }],
  ['activate', 'Lets a deactivated user in again.', { isActive: true }],
  ['promote', 'Makes a user an operator of the platform.', { operator: true }],
  ['demote', 'Makes an operator an ordinary user.', { operator: false }],
];

export const userCommands: readonly AdminCommand[] = [
  {
    name: 'users list',
    usage: '[--organization id] [--search text] [--page n] [--limit n]',
    summary: 'Lists users.',
    options: { ...pageOptions, organization: { type: 'string' }, search: { type: 'string' } },
    async run({ auth, asOperator }, args) {
      const request = {
        page: pageOf(args),
        tenantId: textOption(args, 'organization'),
        search: textOption(args, 'search'),
      };
      const { users, page } = await auth.adminListUsers(request, asOperator);
      return { output: users.map(shown), page };
    },
  },
  {
    name: 'users set-email',
    usage: '<id> <email>',
    summary: 'Gives a user another email address, with which they sign in from then on. They are told at both.',
    async run({ auth, asOperator }, args) {
      const request = { userId: argument(args, 0, "the user's id"), email: argument(args, 1, 'the new email address') };
      const { user } = await auth.adminUpdateUser(request, asOperator);
      return { output: shown(user!) };
    },
  },
  ...changes.map(
    ([verb, summary, change]): AdminCommand => ({
      name: `users ${verb}`,
      usage: '<id>',
      summary,
      async run({ auth, asOperator }, args) {
        const request = { userId: argument(args, 0, "the user's id"), ...change };
        const { user } = await auth.adminUpdateUser(request, asOperator);
        return { output: shown(user!) };
      },
    }),
  ),
];

const shown = (user: User) => ({
  id: user.id,
  organization: user.tenantId,
  email: user.email,
  role: roleName(user.role),
  active: user.isActive,
  operator: user.operator,
  last_login_at: timeText(user.lastLoginAt),
});
