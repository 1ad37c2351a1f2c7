import { Migration } from '@mikro-orm/migrations';

/** A price that does not apply yet can be withdrawn. It stays, since an edge that has not heard may have charged it. */
export class WithdrawPrices extends Migration {
  override up(): void {
    this.addSql(`
      alter table prices add column withdrawn_at timestamptz, drop constraint prices_model_id_effective_from_key;
      create unique index prices_standing on prices (model_id, effective_from) where withdrawn_at is null;
    `);
  }
}
