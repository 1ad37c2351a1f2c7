import { Migration } from '@mikro-orm/migrations';

/**
 * Keeps the number of an organization's transactions by day, since lists tell how many there are and reach pages far back: counting or
 * skipping millions of rows takes longer than a statement may.
 */
export class CountTransactions extends Migration {
  override up(): void {
    this.addSql(`
      create table transaction_counts (
        tenant_id uuid not null,
        -- The UTC day in the transactions' ids, in days since 1970. It never falls in the order of ids, in which lists are read.
        id_day integer not null,
        -- The UTC day by the database's clock, by which lists are narrowed.
        posted_on date not null,
        type smallint not null,
        invoice_month date,
        count bigint not null,
        unique nulls not distinct (tenant_id, id_day, posted_on, type, invoice_month)
      ) with (fillfactor = 70);

      create function count_transactions() returns trigger
      language plpgsql set search_path = billing, pg_temp as $$
      begin
        insert into transaction_counts as kept ${countsOf('added')}
        on conflict (tenant_id, id_day, posted_on, type, invoice_month) do update set count = kept.count + excluded.count;
        return null;
      end $$;
      create trigger transactions_counted after insert on transactions
        referencing new table as added for each statement execute function count_transactions();
    `);
    // After the trigger, which waits until nobody posts and lets nobody begin before the commit.
    this.addSql(`insert into transaction_counts ${countsOf('transactions')};`);
    // Charges are so many that those of a page are close together; 1 is a charge.
    this.addSql('create index transactions_other_than_charges on transactions (tenant_id, type, id) where type > 1;');
  }
}

/** Those of a table, except the movements that no list shows. */
const countsOf = (table: string) => `
  select tenant_id, ('x' || substr(id::text, 1, 8) || substr(id::text, 10, 4))::bit(48)::bigint / 86400000,
    (posted_at at time zone 'UTC')::date, type, invoice_month, count(*)
  from ${table} where type > 0 group by 1, 2, 3, 4, 5`;
