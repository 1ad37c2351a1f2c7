import { Migration } from '@mikro-orm/migrations';
import { idempotencyKeysTable } from '#shared/idempotency.ts';

/** What operators' POSTs with an Idempotency-Key answered, for 24 h. */
export class CreateIdempotencyKeys extends Migration {
  override up(): void {
    this.addSql(idempotencyKeysTable);
  }
}
