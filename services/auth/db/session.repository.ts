import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { clockDifferenceMsMax } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { refreshToken } from '#shared/session-token.ts';
import { addressSource } from '../domain/login-backoff.ts';
import type { PairFacts } from '../tokens/session-tokens.ts';
import { SessionEntity, type SessionRow } from './session.entity.ts';

type SessionKey = { tenantId: string; id: string };

export const findSession = (em: SqlEntityManager, key: SessionKey): Promise<SessionRow | null> =>
  em.findOne(SessionEntity, key);

/**
 * Spends the current refresh token for the next pair; false when somebody else was faster. The condition is in the statement, so that of
 * any number of callers exactly one succeeds.
 */
export async function rotateSession(
  em: SqlEntityManager,
  key: SessionKey,
  rotation: { spentHash: Buffer; nextHash: Buffer; facts: PairFacts; kid: string; now: Date; rotatedAt: Date },
): Promise<boolean> {
  const { spentHash, nextHash, facts, kid, now, rotatedAt } = rotation;
  const changed = await em.nativeUpdate(
    SessionEntity,
    { ...key, refreshTokenHash: spentHash, endedAt: null, expiresAt: { $gt: now } },
    {
      refreshTokenHash: nextHash,
      previousRefreshTokenHash: spentHash,
      rotatedAt,
      ...issuedFields(facts, kid),
    },
  );
  return changed === 1;
}

/** The columns that follow from the last issued pair. */
export const issuedFields = (facts: PairFacts, kid: string) => ({
  issuedAt: new Date(facts.issuedAtMs),
  kid,
  accessTokenId: facts.accessTokenId,
  refreshTokenId: facts.refreshTokenId,
  expiresAt: new Date(facts.issuedAtMs + refreshToken.lifetimeMs),
});

/** Ends a session; false when it had ended before or never existed. */
export async function endSession(em: SqlEntityManager, key: SessionKey, now: Date): Promise<boolean> {
  return (await em.nativeUpdate(SessionEntity, { ...key, endedAt: null }, { endedAt: now })) === 1;
}

/** Ends all sessions of a user. */
export const endUserSessions = (em: SqlEntityManager, userId: string, now: Date): Promise<void> =>
  endSessions(em, { userId }, now);

/** Ends all sessions of everybody. */
export const endAllSessions = (em: SqlEntityManager, now: Date): Promise<void> => endSessions(em, {}, now);

/** How long ending many sessions may take, in milliseconds: a platform, or a script, opens hundreds of thousands in a week. */
const endingMsMax = 60_000;

async function endSessions(em: SqlEntityManager, which: { userId?: string }, now: Date): Promise<void> {
  // By any replica's clock, sessions that expire before this are over.
  const expiresAt = { $gt: new Date(now.getTime() - clockDifferenceMsMax) };
  await em.execute(`set local statement_timeout = ${endingMsMax}`);
  await em.nativeUpdate(SessionEntity, { ...which, endedAt: null, expiresAt }, { endedAt: now });
  await em.execute('set local statement_timeout to default');
}

/** People sign in from fewer addresses while their sessions are kept; a script may do so from any number. */
const addressesMax = 1_000;

/**
 * Whether an account's owner has signed in from the same source as an address (addressSource) within the time that sessions are kept. One
 * query, whether or not the account exists. Of an account with more than `addressesMax` addresses, the others are known only by themselves.
 */
export async function hasSignedInFrom(
  database: ServiceDatabase,
  { email, ip }: { email: string; ip: string },
): Promise<boolean> {
  const { rows } = await database.query<{ ip: string }>({
    name: 'auth-signed-in-from',
    // From one address to the next in the index: a script may have opened a session every few seconds.
    text: `with recursive signed_in (user_id, ip, place) as (
        select id, '', 0 from users where email = $1 and is_active
        union all
        select signed_in.user_id, next.ip, place + 1 from signed_in cross join lateral (
          select ip from sessions where user_id = signed_in.user_id and ip > signed_in.ip order by ip limit 1
        ) as next where place < ${addressesMax}
      )
      select ip from signed_in where place > 0
      union all
      select next.ip from signed_in cross join lateral (
        select ip from sessions where user_id = signed_in.user_id and ip >= $2 order by ip limit 1
      ) as next where place = 0`,
    values: [email, ip],
  });
  const source = addressSource(ip);
  return rows.some((session) => addressSource(session.ip) === source);
}
