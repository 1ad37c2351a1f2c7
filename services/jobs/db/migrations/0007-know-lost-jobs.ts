import { Migration } from '@mikro-orm/migrations';

/** A call may have been charged although its answer was lost with its worker. If its job gets no other, it is to be given back. */
export class KnowLostJobs extends Migration {
  override up(): void {
    this.addSql(`
      -- Whether a run of it may have succeeded without anybody knowing. Once such a job has failed or was cancelled, \`hold_expires_at\` is
      -- set until Billing was told that nobody pays for it, as it is until the room of an ended job was given back.
      alter table jobs add column was_lost boolean not null default false;
      -- Which of those that wait for another attempt were lost is unknown.
      update jobs set was_lost = true where status = 1 and started_at is not null;
    `);
  }
}
