import { Migration } from '@mikro-orm/migrations';
import { auditOutboxAside } from '#shared/audit-outbox/table.ts';

export class SetRefusedEventsAside extends Migration {
  override up(): void {
    this.addSql(auditOutboxAside);
  }
}
