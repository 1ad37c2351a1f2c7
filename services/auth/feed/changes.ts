import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { notify } from '#shared/db/notify.ts';
import { nextVersion } from '#shared/leased-feed/versions.ts';
import { accessToken } from '#shared/session-token.ts';

/** A change that may alter an edge's decisions. What is told of it is read when it is told, so that only its subject is kept. */
export type Change = {
  kind: 'signing_keys' | 'tenant' | 'session' | 'user';
  subjectId?: string;
  /** From then on no access token is alive that the change concerns, in milliseconds since the Unix epoch. */
  forgetAfterMs: number;
};

/** Channel of the notifications that a change was committed; the payload is its version. */
export const changesChannel = 'auth_changes';

/** When the last access token from before a change has ended by itself; a minute more, since `iat` is rounded up with each change. */
export const forgetAfterMs = (nowMs: number): number => nowMs + accessToken.lifetimeMs + 60_000;

/**
 * Records a change in the transaction that makes it, and answers its version. Versions rise in the order of the commits,
 * because the row of the counter stays locked until then: call this last.
 */
export async function recordChange(em: SqlEntityManager, change: Change): Promise<bigint> {
  // Rows that are still in the unit of work must not wait behind the counter's lock.
  await em.flush();
  const [row] = await em.execute<{ version: string }[]>(`update feed set version = ${nextVersion} returning version`);
  const version = row!.version;
  await em.execute('insert into changes (version, kind, subject_id, forget_after) values (?, ?, ?, ?)', [
    version,
    change.kind,
    change.subjectId ?? null,
    new Date(change.forgetAfterMs),
  ]);
  await notify(em, changesChannel, String(version));
  return BigInt(version);
}
