import { Migration } from '@mikro-orm/migrations';

/**
 * What lists of audit events are narrowed by: there are millions of them, and none is ever removed. By the organization last, since operators
 * look for what somebody did, or what happened to something, wherever it was.
 */
export class FindAuditEvents extends Migration {
  override up(): void {
    this.addSql(`
      create index audit_events_of_type on audit_events (type, tenant_id, sequence);
      create index audit_events_of_actor on audit_events (actor_id, tenant_id, sequence);
      create index audit_events_of_target on audit_events (target_id, tenant_id, sequence);
      create index audit_events_by_time on audit_events (occurred_at, tenant_id);
    `);
  }
}
