import { Migration } from '@mikro-orm/migrations';

/**
 * What a plan included when it was last asked for its credit, so that the worker finds the organizations whose plan includes something else
 * without looking into the ledger for each. Null: it is to be asked; so are those for which one posting of this month does not tell.
 */
export class NoteIncludedCredit extends Migration {
  override up(): void {
    this.addSql('alter table credit_months add column included_nano_usd bigint;');
    this.addSql(`
      update credit_months set included_nano_usd = plans.monthly_credit_nano_usd
      from accounts join plans on plans.code = coalesce(accounts.plan_code, 'developer')
        join transactions using (tenant_id)
      where credit_months.tenant_id = accounts.tenant_id and amount_nano_usd = monthly_credit_nano_usd
        and request_id = md5('plan credit ' || credit_months.tenant_id || ' ' || to_char(month, 'YYYY-MM-DD'))::uuid;
    `);
  }
}
