import { Migration } from '@mikro-orm/migrations';

/**
 * Submissions with an Idempotency-Key that some process is about to queue: a repeat at another one must not be refused the room that the
 * first has taken.
 */
export class KnowSubmissionsUnderWay extends Migration {
  override up(): void {
    this.addSql(`
      -- Of no use after a crash of Postgres.
      create unlogged table submissions_under_way (
        tenant_id uuid not null,
        -- As in jobs, like the columns below it.
        subject_id uuid not null,
        idempotency_key text not null,
        -- The id of the job that it becomes.
        job_id uuid not null,
        begun_at timestamptz not null,
        primary key (tenant_id, subject_id, idempotency_key)
      );
    `);
  }
}
