import { Migration } from '@mikro-orm/migrations';

/**
 * Keeps small requests and results with their job: they are written, read and forgotten by the statements that a job needs anyway.
 * Larger ones stay in job_bodies, and so do those of jobs that are there already.
 */
export class KeepSmallBodiesInRows extends Migration {
  override up(): void {
    // Not compressed, as in job_bodies.
    this.addSql(`
      alter table jobs add column request bytea storage external, add column result bytea storage external;
    `);
  }
}
