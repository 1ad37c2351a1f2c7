import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { SessionTokens } from '#gen/modelgateway/auth/v1/session_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { SessionEntity } from '../db/session.entity.ts';
import { issuedFields } from '../db/session.repository.ts';
import type { UserRow } from '../db/user.entity.ts';
import type { AuthDeps } from '../deps.ts';
import { issueTimeMs, type PairFacts, signPair, tokenHash } from './session-tokens.ts';

type Deps = Pick<AuthDeps, 'clock' | 'signingKeys' | 'publicUrl'>;

/** The facts of a pair that is issued now. */
export const newPairFacts = (user: UserRow, sessionId: string, deps: Pick<Deps, 'clock'>): PairFacts => ({
  sessionId,
  issuedAtMs: issueTimeMs(user, deps.clock),
  accessTokenId: uuidv7(),
  refreshTokenId: uuidv7(),
});

/** Opens a session for a user whose password was right, in the transaction of the login. */
export async function openSession(
  em: SqlEntityManager,
  user: UserRow,
  client: { ip: string; userAgent: string },
  deps: Deps,
): Promise<{ sessionId: string; tokens: SessionTokens }> {
  const facts = newPairFacts(user, uuidv7(), deps);
  const signer = deps.signingKeys.active();
  const tokens = await signPair(user, facts, signer, deps.publicUrl);
  em.create(SessionEntity, {
    tenantId: user.tenantId,
    id: facts.sessionId,
    userId: user.id,
    ip: client.ip,
    userAgent: client.userAgent,
    createdAt: new Date(deps.clock.now()),
    refreshTokenHash: tokenHash(tokens.refreshToken),
    ...issuedFields(facts, signer.kid),
  });
  return { sessionId: facts.sessionId, tokens };
}
