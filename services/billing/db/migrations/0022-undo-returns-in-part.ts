import { Migration } from '@mikro-orm/migrations';

/** Of what went back to a payer, a part may come in again: of a dispute that is lost but for what had been refunded before. */
export class UndoReturnsInPart extends Migration {
  override up(): void {
    this.addSql('alter table payment_returns add column undone_nano_usd bigint not null default 0;');
    this.addSql('update payment_returns set undone_nano_usd = amount_nano_usd where is_undone;');
    this.addSql(`
      alter table payment_returns drop column is_undone,
        add constraint payment_returns_undone_check check (undone_nano_usd between 0 and amount_nano_usd);`);
  }
}
