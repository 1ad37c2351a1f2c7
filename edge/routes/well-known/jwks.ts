import { tokenAlgorithm } from '#shared/session-token.ts';
import { asAnonymous } from '../../caller.ts';
import type { Routes } from '../routes.ts';

/** The public keys of session tokens as a JWK set (RFC 7517 section 5, RFC 8037 section 2). */
export const jwksRoutes: Routes = (app, { auth }) => {
  app.get('/.well-known/jwks.json', { config: { access: { surface: 'public' } } }, async (request, reply) => {
    const { signingKeys } = await auth.getSigningKeys({}, asAnonymous(request));
    const keys = signingKeys.map(({ kid, publicKey }) => ({
      kty: 'OKP',
      crv: 'Ed25519',
      x: Buffer.from(publicKey).toString('base64url'),
      kid,
      alg: tokenAlgorithm,
      use: 'sig',
    }));
    // Short, since a compromised key must go soon; whoever meets an unknown kid asks again.
    return reply
      .header('content-type', 'application/jwk-set+json')
      .header('cache-control', 'public, max-age=60')
      .send(JSON.stringify({ keys }));
  });
};
