import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { run } from '#shared/db/run.ts';

/** What the users of an organization have asked for last between two moments, newest first. */
export async function latestEmailChangesOf(
  em: SqlEntityManager,
  tenantId: string,
  { since, until, limit }: { since: Date; until: Date; limit: number },
): Promise<{ email: string; createdAt: Date }[]> {
  const rows = await run<{ email: string; created_at: Date }>(
    em,
    `select email_changes.email, email_changes.created_at from email_changes join users on users.id = user_id
      where users.tenant_id = ? and email_changes.created_at > ? and email_changes.created_at <= ?
      order by email_changes.created_at desc limit ?`,
    [tenantId, since, until, limit],
  );
  return rows.map(({ email, created_at }) => ({ email, createdAt: new Date(created_at) }));
}
