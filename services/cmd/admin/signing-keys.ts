import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import type { AdminCommand } from './command.ts';
import { timeText } from './time.ts';

export const signingKeyCommands: readonly AdminCommand[] = [
  {
    name: 'signing-keys rotate',
    usage: '[--compromised]',
    summary: 'Replaces the key that signs session tokens. With --compromised, every session ends at once.',
    options: { compromised: { type: 'boolean' } },
    async run({ auth, asOperator }, args) {
      const request = { compromised: args.values.compromised === true };
      const { signingKeys } = await auth.rotateSigningKey(request, asOperator);
      const output = signingKeys.map((key) => ({
        kid: key.kid,
        status: key.status === SigningKeyStatus.ACTIVE ? 'active' : 'retiring',
        expires_at: timeText(key.expiresAt),
      }));
      return { output };
    },
  },
];
