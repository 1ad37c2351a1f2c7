import type { SessionTokens } from '#gen/modelgateway/auth/v1/session_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import type { SessionRow } from '../db/session.entity.ts';
import { findSession, rotateSession } from '../db/session.repository.ts';
import type { UserRow } from '../db/user.entity.ts';
import { findUser } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { decideRefresh } from '../domain/refresh-decision.ts';
import { closeSession } from '../tokens/close-session.ts';
import { newPairFacts } from '../tokens/open-session.ts';
import { readRefreshToken, signPair, tokenHash } from '../tokens/session-tokens.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'databaseNow' | 'signingKeys' | 'publicUrl' | 'feed'>;

/** Spends a refresh token for the next pair. */
export const refresh =
  (deps: Deps): AuthRpc<'refresh'> =>
  async (request, context) => {
    const { database, clock, databaseNow } = deps;
    const claims = await readRefreshToken(request.refreshToken, deps);
    if (claims === null) throw invalidToken();
    const hash = tokenHash(request.refreshToken);

    // A second round if somebody else spent the same token at the same moment: then it is a repeat.
    for (let round = 0; round < 2; round += 1) {
      const em = database.em();
      const session = await findSession(em, { tenantId: claims.tenantId, id: claims.sessionId });
      const user = await findUser(em, claims.userId);
      if (session === null || user === null || !user.isActive) throw invalidToken();
      // Replicas' own clocks may differ by more than the grace of a predecessor.
      const sharedMs = await databaseNow();
      const decision = decideRefresh(familyOf(session, sharedMs), hash, clock.now());
      switch (decision) {
        case 'rotate': {
          const tokens = await rotate(session, user, { spentHash: hash, rotatedAt: new Date(sharedMs) }, deps);
          if (tokens !== null) return { tokens };
          break;
        }
        case 'repeat':
          return { tokens: await repeat(session, user, deps) };
        case 'reuse':
          await closeSession(claims, 'refresh_token_reused', callerOf(context), deps);
          throw invalidToken();
        case 'refuse':
          throw invalidToken();
        default:
          return decision satisfies never;
      }
    }
    throw invalidToken();
  };

const familyOf = (session: SessionRow, sharedMs: number) => ({
  currentHash: session.refreshTokenHash,
  previousHash: session.previousRefreshTokenHash ?? null,
  rotatedAgoMs: session.rotatedAt == null ? null : sharedMs - session.rotatedAt.getTime(),
  endedAtMs: session.endedAt?.getTime() ?? null,
  expiresAtMs: session.expiresAt.getTime(),
});

async function rotate(
  session: SessionRow,
  user: UserRow,
  spent: { spentHash: Buffer; rotatedAt: Date },
  deps: Deps,
): Promise<SessionTokens | null> {
  const facts = newPairFacts(user, session.id, deps);
  const signer = deps.signingKeys.active();
  const tokens = await signPair(user, facts, signer, deps.publicUrl);
  const rotated = await transaction(deps.database, (em) =>
    rotateSession(
      em,
      { tenantId: session.tenantId, id: session.id },
      {
        ...spent,
        nextHash: tokenHash(tokens.refreshToken),
        facts,
        kid: signer.kid,
        now: new Date(deps.clock.now()),
      },
    ),
  );
  return rotated ? tokens : null;
}

/** Signs the pair again for which the predecessor was spent: the same facts and the same key make the same tokens. */
async function repeat(session: SessionRow, user: UserRow, deps: Deps): Promise<SessionTokens> {
  const signer = await deps.signingKeys.signer(session.kid);
  if (signer === null) throw invalidToken();
  const facts = {
    sessionId: session.id,
    issuedAtMs: session.issuedAt.getTime(),
    accessTokenId: session.accessTokenId,
    refreshTokenId: session.refreshTokenId,
  };
  return signPair(user, facts, signer, deps.publicUrl);
}

const invalidToken = () =>
  gatewayError(ErrorReason.INVALID_TOKEN, 'This refresh token is no longer valid. Sign in again.');
