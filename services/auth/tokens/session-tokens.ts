import { createHash } from 'node:crypto';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { errors, jwtVerify, SignJWT } from 'jose';
import { type SessionTokens, SessionTokensSchema } from '#gen/modelgateway/auth/v1/session_pb.ts';
import { type Clock, clockDifferenceMsMax } from '#shared/clock.ts';
import { isUuid } from '#shared/ids.ts';
import { accessToken, refreshToken, roleName, tokenAlgorithm } from '#shared/session-token.ts';
import type { UserRow } from '../db/user.entity.ts';
import { userMessage } from '../db/user.message.ts';
import type { Signer, SigningKeys } from './signing-keys.ts';

/**
 * What distinguishes one issued pair from another. The same facts and key give the very same tokens (RFC 8032: EdDSA uses no randomness).
 */
export type PairFacts = { sessionId: string; issuedAtMs: number; accessTokenId: string; refreshTokenId: string };

/** Signs a session's access and refresh token. */
export async function signPair(
  user: UserRow,
  facts: PairFacts,
  signer: Signer,
  publicUrl: string,
): Promise<SessionTokens> {
  const refreshExpiresAtMs = facts.issuedAtMs + refreshToken.lifetimeMs;
  const [access, refresh] = await Promise.all([
    sign(accessToken, facts.accessTokenId, {
      role: roleName(user.role),
      ...(user.operator && { operator: true }),
    }),
    sign(refreshToken, facts.refreshTokenId, {}),
  ]);
  return create(SessionTokensSchema, {
    accessToken: access,
    refreshToken: refresh,
    expiresInSeconds: accessToken.lifetimeMs / 1000,
    refreshTokenExpiresAt: timestampFromMs(refreshExpiresAtMs),
    user: userMessage(user),
  });

  function sign(kind: typeof accessToken | typeof refreshToken, id: string, claims: Record<string, unknown>) {
    return new SignJWT({ tenant_id: user.tenantId, ...claims, sid: facts.sessionId })
      .setProtectedHeader({ alg: tokenAlgorithm, typ: kind.type, kid: signer.kid })
      .setIssuer(publicUrl)
      .setAudience(kind.audience)
      .setSubject(user.id)
      .setJti(id)
      .setIssuedAt(facts.issuedAtMs / 1000)
      .setExpirationTime((facts.issuedAtMs + kind.lifetimeMs) / 1000)
      .sign(signer.privateKey);
  }
}

/**
 * The `iat` of a token signed now, in milliseconds. A whole second, and not before the moment from which the user's tokens count, which a
 * change within the last half minute has set ahead.
 */
export const issueTimeMs = (user: UserRow, clock: Clock): number =>
  Math.max(wholeSecondMs(clock.now()), user.tokensNotBefore.getTime());

/**
 * The moment from which a user's tokens count after a change at `nowMs`. Since `iat` has no fractions, it is one second after anything that
 * another replica's clock can have written into a token, and after the previous value, so that no token issued between two changes outlives
 * the second one.
 */
export const tokensNotBeforeAfter = (nowMs: number, before: Date): Date =>
  new Date(Math.max(wholeSecondMs(nowMs + clockDifferenceMsMax), before.getTime()) + 1_000);

/** The moment from which a new user's tokens count. */
export const wholeSecondMs = (nowMs: number): number => Math.floor(nowMs / 1000) * 1000;

export type RefreshClaims = { tenantId: string; userId: string; sessionId: string };

/** The claims of a refresh token that we signed and that has not expired; null for anything else. */
export async function readRefreshToken(
  token: string,
  deps: { signingKeys: SigningKeys; clock: Clock; publicUrl: string },
): Promise<RefreshClaims | null> {
  try {
    const { payload } = await jwtVerify(
      token,
      async ({ kid }) => {
        const key = typeof kid === 'string' ? await deps.signingKeys.verifier(kid) : null;
        if (key === null) throw new errors.JWKSNoMatchingKey();
        return key;
      },
      {
        algorithms: [tokenAlgorithm],
        typ: refreshToken.type,
        issuer: deps.publicUrl,
        audience: refreshToken.audience,
        requiredClaims: ['exp', 'iat', 'sub', 'sid', 'tenant_id', 'jti'],
        currentDate: new Date(deps.clock.now()),
      },
    );
    const { sub, sid, tenant_id: tenantId } = payload as Record<string, unknown>;
    if (![sub, sid, tenantId].every((id) => typeof id === 'string' && isUuid(id))) return null;
    return { tenantId: tenantId as string, userId: sub as string, sessionId: sid as string };
  } catch (error) {
    if (error instanceof errors.JOSEError) return null;
    // The keys could not be read, which says nothing about the token.
    throw error;
  }
}

/** What is stored of a refresh token or a mailed token. The token has at least 128 random bits, so a plain hash suffices. */
export const tokenHash = (token: string): Buffer => createHash('sha256').update(token).digest();
