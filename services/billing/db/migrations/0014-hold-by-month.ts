import { Migration } from '@mikro-orm/migrations';

/** Room held in what an organization can pay, by the month for which it is held, as it stands for keys and users by day; 3 is an organization. */
export class HoldByMonth extends Migration {
  override up(): void {
    this.addSql(`
      insert into spend (tenant_id, kind, subject_id, period_start, held_nano_usd)
      select tenant_id, kind, subject_id, period_start, sum(room_nano_usd - charged_nano_usd) from leases
      where kind = 3 and room_nano_usd > charged_nano_usd group by 1, 2, 3, 4
      on conflict (tenant_id, kind, subject_id, period_start) do update set held_nano_usd = excluded.held_nano_usd;
    `);
    this.addSql('alter table accounts drop column held_nano_usd;');
  }
}
