import { Migration } from '@mikro-orm/migrations';

/** What Auth refuses for good stays in the outbox, aside of the others. */
export class SetRefusedEventsAside extends Migration {
  override up(): void {
    this.addSql('alter table audit_outbox add column refused_at timestamptz');
  }
}
