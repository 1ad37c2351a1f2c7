import { rotationTimeoutMs, signingKeyJson } from '../../../edge/routes/api/admin/signing-keys.ts';
import { type AdminCommand, idempotencyKeyOf, idempotencyOptions } from './command.ts';

export const signingKeyCommands: readonly AdminCommand[] = [
  {
    name: 'signing-keys list',
    usage: '',
    summary: 'Lists the keys that sign session tokens, or still verify old ones.',
    async run({ auth, asOperator }) {
      const { signingKeys } = await auth.getSigningKeys({}, asOperator);
      return { output: signingKeys.map(signingKeyJson) };
    },
  },
  {
    name: 'signing-keys rotate',
    usage: '[--compromised] [--idempotency-key text]',
    summary:
      'Replaces the key that signs session tokens. With --compromised, every session ends at once; a JWT_PRIVATE_KEY is replaced first.',
    options: { ...idempotencyOptions, compromised: { type: 'boolean' } },
    async run({ auth, asOperator }, args) {
      const request = { compromised: args.values.compromised === true, idempotencyKey: idempotencyKeyOf(args) };
      const options = { ...asOperator, timeoutMs: rotationTimeoutMs };
      const { signingKeys } = await auth.rotateSigningKey(request, options);
      return { output: signingKeys.map(signingKeyJson) };
    },
  },
];
