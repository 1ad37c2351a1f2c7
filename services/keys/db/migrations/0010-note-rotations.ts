import { Migration } from '@mikro-orm/migrations';

/** How old a key's secret is, which its creation does not tell. A key's first secret is as old as the key. */
export class NoteRotations extends Migration {
  override up(): void {
    this.addSql('alter table keys add column rotated_at timestamptz');
    this.addSql(`
      update keys set rotated_at = digests.created_at from digests
      where digests.tenant_id = keys.tenant_id and digests.key_id = keys.id
        and digests.expires_at is null and digests.created_at > keys.created_at`);
  }
}
