import { Migration } from '@mikro-orm/migrations';

/** What Models processes say of deployments about which they differ, each by what its own edges report. */
export class ShareOpinions extends Migration {
  override up(): void {
    this.addSql(`
      create table deployment_opinions (
        deployment_id uuid not null references deployments (id) on delete cascade,
        -- The process, made anew at each start.
        models_id uuid not null,
        status smallint not null,
        told_at timestamptz not null,
        primary key (deployment_id, models_id)
      );
    `);
  }
}
