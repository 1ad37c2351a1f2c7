import { Migration } from '@mikro-orm/migrations';
import { idempotencyKeysTable } from '#shared/idempotency.ts';

/** What POSTs with an Idempotency-Key made, for 24 h, in the form that all services have; what was kept until now is forgotten. */
export class KeepRequestsAsOthersDo extends Migration {
  override up(): void {
    this.addSql(`drop table idempotency_keys; ${idempotencyKeysTable}`);
  }
}
