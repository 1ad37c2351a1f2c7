import { type Static, Type } from 'typebox';
import { tokenAlgorithm } from '#shared/session-token.ts';
import type { Routes } from '../../app.ts';

const jwksSchema = Type.Object({
  keys: Type.Array(
    Type.Object({
      kty: Type.Literal('OKP'),
      crv: Type.Literal('Ed25519'),
      x: Type.String(),
      kid: Type.String(),
      alg: Type.Literal(tokenAlgorithm),
      use: Type.Literal('sig'),
    }),
  ),
});

/** The public keys of session tokens as a JWK set (RFC 7517 section 5, RFC 8037 section 2). */
export const jwksRoutes: Routes = (app, { signingKeys }) => {
  app.get(
    '/.well-known/jwks.json',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Get the keys of session tokens',
        description: 'They verify access tokens. Ask again when a token has an unknown `kid`.',
        response: { 200: { content: { 'application/jwk-set+json': { schema: jwksSchema } } } },
      },
    },
    async (_request, reply) => {
      const keys: Static<typeof jwksSchema>['keys'] = (await signingKeys()).map(({ kid, publicKey }) => ({
        kty: 'OKP',
        crv: 'Ed25519',
        x: Buffer.from(publicKey).toString('base64url'),
        kid,
        alg: tokenAlgorithm,
        use: 'sig',
      }));
      // Cached briefly, since a compromised key must go soon; whoever meets an unknown kid asks again.
      return reply
        .header('content-type', 'application/jwk-set+json')
        .header('cache-control', 'public, max-age=60')
        .send({ keys });
    },
  );
};
