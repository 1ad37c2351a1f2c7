import { Migration } from '@mikro-orm/migrations';

/** Keeps the Idempotency-Keys of deleted jobs until their 24 hours are over: a submission that is repeated would run again. */
export class RememberKeysOfDeletedJobs extends Migration {
  override up(): void {
    this.addSql(`
      create table deleted_job_keys (
        tenant_id uuid not null,
        -- As in jobs, like the columns below it.
        subject_id uuid not null,
        idempotency_key text not null,
        request_hash bytea not null,
        created_at timestamptz not null,
        primary key (tenant_id, subject_id, idempotency_key)
      );
      create index deleted_job_keys_by_age on deleted_job_keys (created_at);
    `);
  }
}
