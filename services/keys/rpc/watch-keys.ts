import type { PepperFingerprint } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { invalidRequest } from '#shared/errors.ts';
import { pepperFingerprint } from '#shared/key-secret.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { KeysDeps, KeysRpc } from '../deps.ts';

/**
 * Tells an edge about changes, unless it would refuse keys because its peppers differ. Nobody waits for the edge before it has acknowledged
 * the current version.
 */
export const watchKeys = ({ feed, peppers }: Pick<KeysDeps, 'feed' | 'peppers'>): KeysRpc<'watchKeys'> =>
  async function* ({ afterVersion, peppers: theirs }, context) {
    requireService(callerOf(context), 'edge');
    if (theirs.length > 0) checkAlike(theirs, peppers);
    yield* feed.watch(afterVersion, context.signal);
  };

/** While a pepper is being replaced, an edge may have more or fewer of them than Keys, but the one in use must match. */
function checkAlike(theirs: readonly PepperFingerprint[], ours: readonly KeyPepper[]): void {
  for (const [place, pepper] of ours.entries()) {
    const their = theirs.find(({ version }) => version === pepper.version);
    if (their === undefined ? place > 0 : pepperFingerprint(pepper).equals(their.fingerprint)) continue;
    const fault = their === undefined ? 'lacks the version that Keys uses' : 'differs from that of Keys';
    throw invalidRequest('peppers', `This edge's KEY_PEPPER ${fault} (version ${pepper.version}): give both the same.`);
  }
}
