import { Migration } from '@mikro-orm/migrations';

/**
 * Lines of invoices by the month in which their calls were made: calls charged late stand apart. Lines that are there already count as of
 * their invoice's month, since what they add up cannot be told apart.
 */
export class KnowMonthOfUsage extends Migration {
  override up(): void {
    this.addSql('alter table invoice_lines add column usage_month date;');
    this.addSql('update invoice_lines set usage_month = month;');
    this.addSql(`
      alter table invoice_lines drop constraint invoice_lines_pkey,
        add primary key (tenant_id, month, model, unit, unit_price_nano_usd, usage_month);
    `);
  }
}
