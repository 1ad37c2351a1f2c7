import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { takeVersions } from '#shared/leased-feed/versions.ts';
import { accessToken } from '#shared/session-token.ts';

/** A change that may alter an edge's decisions. Only its subject is kept: the details are read when the change is sent. */
export type Change = {
  kind: 'signing_keys' | 'tenant' | 'session' | 'user';
  subjectId?: string;
  /** From then on every access token that the change concerns has expired, in milliseconds since the Unix epoch. */
  forgetAfterMs: number;
};

/** An hour, as far as a clock may be ahead for a while (reliability.md, Faults); and two minutes, as `iat` is set ahead with each change of its user. */
const marginMs = 3_600_000 + 120_000;

/** When the last access token issued up to some moment has expired, by any clock. */
export const forgetAfterMs = (issuedMs: number): number => issuedMs + accessToken.lifetimeMs + marginMs;

/** Records a change at the end of the transaction that makes it, and returns its version. */
export async function recordChange(em: SqlEntityManager, change: Change): Promise<bigint> {
  const version = await takeVersions(em, 'auth', 1);
  await em.execute('insert into changes (version, kind, subject_id, forget_after) values (?, ?, ?, ?)', [
    String(version),
    change.kind,
    change.subjectId ?? null,
    new Date(change.forgetAfterMs),
  ]);
  return version;
}
