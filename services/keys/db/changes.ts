import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { nextVersion } from '#shared/db/next-version.ts';
import { notify } from '#shared/db/notify.ts';

/** Tells feeds that there are newer changes; the payload is the version. */
export const changedChannel = 'keys_changed';

/** A digest as the feed's removals carry it. */
export type RemovedDigest = { pepper: number; digest: string };

/** What edges must learn. */
export type Change =
  | { kind: 'key_changed'; tenantId: string; keyId: string }
  | { kind: 'key_removed'; tenantId: string; keyId: string; digests: readonly RemovedDigest[] }
  | { kind: 'secret_removed'; tenantId: string; keyId: string; digests: readonly RemovedDigest[] }
  | { kind: 'tenant_changed'; tenantId: string }
  | { kind: 'owner_changed'; tenantId: string; userId: string };

/**
 * Appends changes to the feed, as the last statement of the transaction that makes them: the lock on the feed's row, held
 * until the commit, makes versions appear in their order. Answers the version of the last one.
 */
export async function appendChanges(em: SqlEntityManager, changes: readonly Change[]): Promise<bigint> {
  await em.flush();
  const rows = changes.map((change) => ({
    kind: change.kind,
    tenant_id: change.tenantId,
    subject_id: subjectOf(change),
    removed_digests: 'digests' in change ? change.digests : [],
  }));
  const [feed] = await em.execute<{ version: string }[]>(
    `with feed as (update feed set version = ${nextVersion} + ? - 1 returning version),
     appended as (
       insert into changes (version, kind, tenant_id, subject_id, removed_digests)
       select feed.version - ? + change.ordinal, kind, tenant_id, subject_id, removed_digests
       from feed, rows from (jsonb_to_recordset(?::jsonb)
         as (kind text, tenant_id uuid, subject_id uuid, removed_digests jsonb))
         with ordinality as change (kind, tenant_id, subject_id, removed_digests, ordinal)
     )
     select version from feed`,
    [rows.length, rows.length, JSON.stringify(rows)],
  );
  await notify(em, changedChannel, feed!.version);
  return BigInt(feed!.version);
}

function subjectOf(change: Change): string {
  switch (change.kind) {
    case 'tenant_changed':
      return change.tenantId;
    case 'owner_changed':
      return change.userId;
    default:
      return change.keyId;
  }
}

/** The version of the last change. */
export async function currentVersion(em: SqlEntityManager): Promise<bigint> {
  const [feed] = await em.execute<{ version: string }[]>('select version from feed');
  return BigInt(feed!.version);
}
