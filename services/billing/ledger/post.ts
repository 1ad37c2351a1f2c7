import type { Sql } from '../db/sql.ts';
import { accountNumbers, type Posting, walletBalance, withPosting } from '../domain/ledger.ts';
import type { Account } from './accounts.ts';

/** A posting with what the wallet held behind it. */
export type Posted = Posting & { balanceAfterNanoUsd: bigint; postedAtMs: number };

/**
 * The one way into the ledger: writes postings of locked accounts, in order, and their balances. The accounts are changed too, so
 * that a caller may go on with them. PostgreSQL checks at the commit that each transaction sums to 0.
 */
export async function post(
  sql: Sql,
  batches: readonly { account: Account; postings: readonly Posting[] }[],
  nowMs: number,
): Promise<Posted[]> {
  const posted: (Posted & { tenantId: string })[] = [];
  for (const { account, postings } of batches) {
    for (const posting of postings) {
      account.balances = withPosting(account.balances, posting);
      posted.push({
        ...posting,
        tenantId: account.tenantId,
        balanceAfterNanoUsd: walletBalance(account.balances),
        postedAtMs: nowMs,
      });
    }
  }
  if (posted.length === 0) return posted;
  await insertTransactions(sql, posted, new Date(nowMs));
  await insertEntries(sql, posted);
  await updateBalances(
    sql,
    batches.map(({ account }) => account),
  );
  return posted;
}

async function insertTransactions(
  sql: Sql,
  posted: readonly (Posted & { tenantId: string })[],
  postedAt: Date,
): Promise<void> {
  await sql.query({
    name: 'post-transactions',
    text: `
      insert into transactions (tenant_id, id, type, amount_nano_usd, balance_after_nano_usd, invoice_month, description,
        usage_event_id, reverses_id, request_id, posted_at)
      select *, $11 from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bigint[], $5::bigint[], $6::date[], $7::text[],
        $8::uuid[], $9::uuid[], $10::uuid[])`,
    values: [
      posted.map((row) => row.tenantId),
      posted.map((row) => row.id),
      posted.map((row) => row.type),
      posted.map((row) => row.amountNanoUsd),
      posted.map((row) => row.balanceAfterNanoUsd),
      posted.map((row) => row.invoiceMonth),
      posted.map((row) => row.description),
      posted.map((row) => row.usageEventId),
      posted.map((row) => row.reversesId),
      posted.map((row) => row.requestId),
      postedAt,
    ],
  });
}

async function insertEntries(sql: Sql, posted: readonly (Posted & { tenantId: string })[]): Promise<void> {
  const entries = posted.flatMap(({ tenantId, id, entries }) =>
    entries.map((entry, ordinal) => ({ tenantId, id, ordinal, ...entry })),
  );
  await sql.query({
    name: 'post-entries',
    text: `
      insert into entries (tenant_id, transaction_id, ordinal, account, item_id, amount_nano_usd)
      select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::smallint[], $5::uuid[], $6::bigint[])`,
    values: [
      entries.map((entry) => entry.tenantId),
      entries.map((entry) => entry.id),
      entries.map((entry) => entry.ordinal),
      entries.map((entry) => accountNumbers[entry.account]),
      entries.map((entry) => entry.itemId),
      entries.map((entry) => entry.amountNanoUsd),
    ],
  });
}

async function updateBalances(sql: Sql, accounts: readonly Account[]): Promise<void> {
  const column = (read: (account: Account) => bigint) => accounts.map(read);
  await sql.query({
    name: 'update-balances',
    text: `
      update accounts set receivable = b.receivable, wallet = b.wallet, promotional = b.promotional,
        commitment = b.commitment, revenue = b.revenue, expired_credit = b.expired_credit,
        payg_accrual = b.payg_accrual, funding = b.funding, granted_credit = b.granted_credit
      from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::bigint[], $9::bigint[], $10::bigint[])
        as b (tenant_id, receivable, wallet, promotional, commitment, revenue, expired_credit, payg_accrual, funding,
          granted_credit)
      where accounts.tenant_id = b.tenant_id`,
    values: [
      accounts.map(({ tenantId }) => tenantId),
      column(({ balances }) => balances.receivable),
      column(({ balances }) => balances.wallet),
      column(({ balances }) => balances.promotional),
      column(({ balances }) => balances.commitment),
      column(({ balances }) => balances.revenue),
      column(({ balances }) => balances.expiredCredit),
      column(({ balances }) => balances.paygAccrual),
      column(({ balances }) => balances.funding),
      column(({ balances }) => balances.grantedCredit),
    ],
  });
}
