import { Migration } from '@mikro-orm/migrations';

/**
 * The ledger's guarantees, checked once for each statement instead of once for each transaction at the commit, which cost as much as
 * the posting itself. A transaction and its entries therefore come in one statement (ledger/post.ts).
 */
export class CheckByStatement extends Migration {
  override up(): void {
    this.addSql(`
      drop trigger transactions_balance on transactions;
      drop function require_balance();
      drop trigger entries_of_own_transaction on entries;
      drop function require_own_transaction();

      -- What a statement adds to a transaction sums to 0, so that the whole does; and nothing is added to one that was committed.
      create function require_balance() returns trigger
      language plpgsql ${onlyByIndex} as $$
      begin
        if exists (select from added group by tenant_id, transaction_id having sum(amount_nano_usd) <> 0) then
          raise exception 'a transaction is not balanced' using errcode = '23514';
        end if;
        if exists (
          select from (select distinct tenant_id, transaction_id from added) as own
          left join transactions on transactions.tenant_id = own.tenant_id and transactions.id = own.transaction_id
          where transactions.xmin is distinct from pg_current_xact_id()::xid
        ) then
          raise exception 'entries belong to a transaction of the same commit' using errcode = '23503';
        end if;
        return null;
      end $$;
      create trigger entries_balance after insert on entries
        referencing new table as added for each statement execute function require_balance();

      -- A transaction without entries would move nothing, whatever it says.
      create function require_entries() returns trigger
      language plpgsql ${onlyByIndex} as $$
      begin
        if exists (
          select from added
          where not exists (select from entries where tenant_id = added.tenant_id and transaction_id = added.id)
        ) then
          raise exception 'a transaction comes with its entries' using errcode = '23514';
        end if;
        return null;
      end $$;
      create trigger transactions_have_entries after insert on transactions
        referencing new table as added for each statement execute function require_entries();
    `);
  }
}

/** A plan is kept from a session's first posting, when the tables may have been empty: it must not read them whole once they have grown. */
const onlyByIndex = `set search_path = billing, pg_temp
      set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off`;
