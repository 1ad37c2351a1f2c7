import { Migration } from '@mikro-orm/migrations';

/**
 * The last month for which an organization's plan was asked for its credit: whoever draws on credit asks first. A table of its own, since
 * processes of the version before read all columns of accounts by prepared statements, which a new column would break.
 */
export class NoteCreditMonth extends Migration {
  override up(): void {
    this.addSql('create table credit_months (tenant_id uuid primary key, month date not null);');
  }
}
