import { signingKeyMessage } from '../db/signing-key.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { acceptedSigningKeys } from '../tokens/signing-keys.ts';

/** The public keys whose tokens are accepted now or soon. */
export const getSigningKeys =
  ({ database, clock }: Pick<AuthDeps, 'database' | 'clock'>): AuthRpc<'getSigningKeys'> =>
  async () => ({
    signingKeys: (await acceptedSigningKeys(database.em(), clock)).map(signingKeyMessage),
  });
