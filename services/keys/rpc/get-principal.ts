import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { livePrincipals, type PrincipalRow, principalColumns, principalMessage } from '../db/principals.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

export const getPrincipal =
  ({ database }: Pick<KeysDeps, 'database'>): KeysRpc<'getPrincipal'> =>
  async ({ keyId }, context) => {
    requireService(callerOf(context));
    // The current secret has no expiry of its own, so the answer expires with the key.
    const { rows } = await database.query<PrincipalRow>({
      name: 'keys-get-principal',
      text: `select feed.version, ${principalColumns} from feed, ${livePrincipals}
        where keys.id = $1 and digests.expires_at is null`,
      values: [keyId],
    });
    return { principal: rows[0] && principalMessage(rows[0]) };
  };
