import { invalidRequest } from '#shared/errors.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/**
 * Streams the state and then every change, unless the edge would refuse this Auth's sessions. Nobody waits for the edge before it has
 * acknowledged the current version.
 */
export const watchAuth = ({ feed, publicUrl }: Pick<AuthDeps, 'feed' | 'publicUrl'>): AuthRpc<'watchAuth'> =>
  async function* ({ issuer }, context) {
    requireService(callerOf(context), 'edge');
    if (issuer !== '' && issuer !== publicUrl) {
      throw invalidRequest(
        'issuer',
        `PUBLIC_URL differs: this edge has ${issuer}, Auth has ${publicUrl}. Give both the same.`,
      );
    }
    yield* feed.watch(0n, context.signal);
  };
