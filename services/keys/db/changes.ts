import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { takeVersions } from '#shared/leased-feed/versions.ts';

/** A digest in the form that the feed's removals have. */
export type RemovedDigest = { pepper: number; digest: string };

/** Something that edges must learn. */
export type Change =
  | { kind: 'key_changed'; tenantId: string; keyId: string }
  | { kind: 'key_removed'; tenantId: string; keyId: string; digests: readonly RemovedDigest[] }
  | { kind: 'secret_removed'; tenantId: string; keyId: string; digests: readonly RemovedDigest[] }
  | { kind: 'tenant_changed'; tenantId: string }
  | { kind: 'owner_changed'; tenantId: string; userId: string };

/** Appends changes to the feed, as the last statements of the transaction that makes them. Returns the version of the last one. */
export async function appendChanges(em: SqlEntityManager, changes: readonly Change[]): Promise<bigint> {
  const rows = changes.map((change) => ({
    kind: change.kind,
    tenant_id: change.tenantId,
    subject_id: subjectOf(change),
    removed_digests: 'digests' in change ? change.digests : [],
  }));
  const version = await takeVersions(em, 'keys', rows.length);
  await em.execute(
    `insert into changes (version, kind, tenant_id, subject_id, removed_digests)
     select ?::bigint - ? + ordinal, kind, tenant_id, subject_id, removed_digests
     from rows from (jsonb_to_recordset(?::jsonb) as (kind text, tenant_id uuid, subject_id uuid, removed_digests jsonb))
       with ordinality as change (kind, tenant_id, subject_id, removed_digests, ordinal)`,
    [String(version), rows.length, JSON.stringify(rows)],
  );
  return version;
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
