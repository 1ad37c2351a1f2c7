import { plainArray, type Sql } from '#shared/db/sql.ts';
import { uuidv7After } from '#shared/ids.ts';
import { accountNumbers, applyPosting, type Posting, walletBalance } from '../domain/ledger.ts';
import type { Account } from './accounts.ts';

/** A posting of an organization, with the id of its transaction and the wallet's balance after it. */
type Row = Posting & { tenantId: string; id: string; balanceAfterNanoUsd: bigint };

/**
 * The one way into the ledger: writes postings of locked accounts, in order, and their balances. The account objects are updated too, so
 * that a caller can continue with them. Returns the ids of the transactions, which rise in each account, whoever posts. PostgreSQL checks that
 * each sums to 0.
 */
export async function post(
  sql: Sql,
  batches: readonly { account: Account; postings: readonly Posting[] }[],
  nowMs: number,
): Promise<string[]> {
  const posted: Row[] = [];
  for (const { account, postings } of batches) {
    account.balances = { ...account.balances };
    for (const posting of postings) {
      applyPosting(account.balances, posting);
      account.lastTransactionId = uuidv7After(account.lastTransactionId);
      posted.push({
        ...posting,
        id: account.lastTransactionId,
        tenantId: account.tenantId,
        balanceAfterNanoUsd: walletBalance(account.balances),
      });
    }
  }
  if (posted.length === 0) return [];
  await insert(sql, posted, new Date(nowMs));
  await updateBalances(
    sql,
    batches.map(({ account }) => account),
  );
  return posted.map(({ id }) => id);
}

/** Charges neither reverse anything nor have request ids, and there are thousands of them a second. */
const isPlain = ({ reversesId, requestId }: Row): boolean => reversesId === null && requestId === null;

/** Writes transactions with their entries in one statement, at the end of which PostgreSQL checks them. */
async function insert(sql: Sql, posted: readonly Row[], postedAt: Date): Promise<void> {
  const values = [...entryColumns(posted), ...transactionColumns(posted), postedAt];
  const descriptions = posted.map((row) => row.description);
  if (posted.every(isPlain)) {
    await sql.query({
      name: 'post-plain',
      text: `
        with posted as (
          insert into transactions (tenant_id, id, type, amount_nano_usd, balance_after_nano_usd, invoice_month,
            usage_event_id, description, posted_at)
          select *, $14 from unnest($7::uuid[], $8::uuid[], $9::smallint[], $10::bigint[], $11::bigint[], $12::date[],
            $13::uuid[], $15::text[]))
        ${insertEntries}`,
      values: [...values, descriptions],
    });
    return;
  }
  await sql.query({
    name: 'post',
    text: `
      with posted as (
        insert into transactions (tenant_id, id, type, amount_nano_usd, balance_after_nano_usd, invoice_month,
          usage_event_id, reverses_id, request_id, description, posted_at)
        select *, $14 from unnest($7::uuid[], $8::uuid[], $9::smallint[], $10::bigint[], $11::bigint[], $12::date[],
          $13::uuid[], $15::uuid[], $16::uuid[], $17::text[]))
      ${insertEntries}`,
    values: [
      ...values,
      plainArray(posted.map((row) => row.reversesId)),
      plainArray(posted.map((row) => row.requestId)),
      descriptions,
    ],
  });
}

const insertEntries = `
  insert into entries (tenant_id, transaction_id, ordinal, account, item_id, amount_nano_usd)
  select * from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::smallint[], $5::uuid[], $6::bigint[])`;

const transactionColumns = (posted: readonly Row[]): string[] => [
  plainArray(posted.map((row) => row.tenantId)),
  plainArray(posted.map((row) => row.id)),
  plainArray(posted.map((row) => row.type)),
  plainArray(posted.map((row) => row.amountNanoUsd)),
  plainArray(posted.map((row) => row.balanceAfterNanoUsd)),
  plainArray(posted.map((row) => row.invoiceMonth)),
  plainArray(posted.map((row) => row.usageEventId)),
];

function entryColumns(posted: readonly Row[]): string[] {
  const tenantIds: string[] = [];
  const ids: string[] = [];
  const ordinals: number[] = [];
  const accounts: number[] = [];
  const itemIds: (string | null)[] = [];
  const amounts: bigint[] = [];
  for (const { tenantId, id, entries } of posted) {
    for (const [ordinal, { account, itemId, amountNanoUsd }] of entries.entries()) {
      tenantIds.push(tenantId);
      ids.push(id);
      ordinals.push(ordinal);
      accounts.push(accountNumbers[account]);
      itemIds.push(itemId);
      amounts.push(amountNanoUsd);
    }
  }
  return [tenantIds, ids, ordinals, accounts, itemIds, amounts].map(plainArray);
}

async function updateBalances(sql: Sql, accounts: readonly Account[]): Promise<void> {
  const column = (read: (account: Account) => bigint) => plainArray(accounts.map(read));
  await sql.query({
    name: 'update-balances',
    text: `
      update accounts set receivable = b.receivable, wallet = b.wallet, promotional = b.promotional,
        commitment = b.commitment, revenue = b.revenue, expired_credit = b.expired_credit,
        payg_accrual = b.payg_accrual, funding = b.funding, granted_credit = b.granted_credit,
        overdraft = b.overdraft, last_transaction_id = b.last_transaction_id
      from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
        $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::uuid[])
        as b (tenant_id, receivable, wallet, promotional, commitment, revenue, expired_credit, payg_accrual, funding,
          granted_credit, overdraft, last_transaction_id)
      where accounts.tenant_id = b.tenant_id`,
    values: [
      plainArray(accounts.map(({ tenantId }) => tenantId)),
      column(({ balances }) => balances.receivable),
      column(({ balances }) => balances.wallet),
      column(({ balances }) => balances.promotional),
      column(({ balances }) => balances.commitment),
      column(({ balances }) => balances.revenue),
      column(({ balances }) => balances.expiredCredit),
      column(({ balances }) => balances.paygAccrual),
      column(({ balances }) => balances.funding),
      column(({ balances }) => balances.grantedCredit),
      column(({ balances }) => balances.overdraft),
      plainArray(accounts.map((account) => account.lastTransactionId)),
    ],
  });
}
