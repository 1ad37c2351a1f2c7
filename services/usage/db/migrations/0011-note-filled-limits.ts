import { Migration } from '@mikro-orm/migrations';

/** How much a bucket holds is known by the limits that filled it, so that a raised one need not wait for what a small one let through. */
export class NoteFilledLimits extends Migration {
  override up(): void {
    this.addSql(`
      -- Empty again, as after a crash of the database: that gives a subject a minute's worth at most.
      truncate rate_limit_buckets;
      alter table rate_limit_buckets
        -- The limits under which the levels were filled, on average.
        add column requests_per_minute integer not null,
        add column tokens_per_minute integer not null;
    `);
  }
}
