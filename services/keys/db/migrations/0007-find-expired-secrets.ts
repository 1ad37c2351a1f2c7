import { Migration } from '@mikro-orm/migrations';

/** By it housekeeping finds the secrets whose grace period is over; the current ones, nearly all, stand in no such index. */
export class FindExpiredSecrets extends Migration {
  override up(): void {
    this.addSql('create index digests_by_expiry on digests (expires_at) where expires_at is not null');
  }
}
