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
      throw invalidRequest('issuer', `This edge's PUBLIC_URL is ${issuer}, and that of Auth ${publicUrl}.`);
    }
    yield* feed.watch(0n, context.signal);
  };
