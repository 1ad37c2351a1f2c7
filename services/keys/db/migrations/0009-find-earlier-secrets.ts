import { Migration } from '@mikro-orm/migrations';

/** Whoever reports a leaked key knows its preview, which after a rotation is not that of the key any more. */
export class FindEarlierSecrets extends Migration {
  override up(): void {
    this.addSql('alter table digests add column preview text');
    this.addSql('create index digests_by_preview on digests (preview) where preview is not null');
  }
}
