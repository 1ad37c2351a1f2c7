import { Migration } from '@mikro-orm/migrations';

/** From which upstreams a model was registered; of models that stand, wherever their deployments are. */
export class NoteWhereRegistered extends Migration {
  override up(): void {
    this.addSql(`
      alter table models add column registered_from text[] not null default '{}';
      update models set registered_from = stands.urls
        from (select model_id, array_agg(distinct base_url) as urls from deployments group by model_id) stands
        where stands.model_id = models.id;
    `);
  }
}
