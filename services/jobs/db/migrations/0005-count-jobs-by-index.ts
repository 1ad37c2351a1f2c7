import { Migration } from '@mikro-orm/migrations';

/**
 * What lists of jobs are narrowed by stands in the indexes by which they are read: a day may bring millions of jobs, with their results, and
 * each list counts those that it is about.
 */
export class CountJobsByIndex extends Migration {
  override up(): void {
    this.addSql(`
      drop index jobs_by_id;
      create index jobs_by_id on jobs (id) include (tenant_id, status, model);
      drop index jobs_of_user;
      create index jobs_of_user on jobs (tenant_id, user_id, id) include (status, expires_at, model, endpoint);
    `);
  }
}
