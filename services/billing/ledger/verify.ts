import type { MessageInitShape } from '@bufbuild/protobuf';
import { LedgerFaultKind, type VerifyLedgerResponseSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { longTransaction } from '#shared/db/long-transaction.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Sql } from '#shared/db/sql.ts';
import { accountNumbers as numbers } from '../domain/ledger.ts';

type Fault = { tenant_id: string; subject_id: string; expected: bigint; actual: bigint };

const faultsMax = 100;

/**
 * Each check finds rows that should not exist: the organization, the subject, the amount that follows from the entries, and the stored one.
 */
const checks: readonly (readonly [LedgerFaultKind, string])[] = [
  [
    LedgerFaultKind.UNBALANCED_TRANSACTION,
    `select tenant_id, transaction_id as subject_id, 0::bigint as expected, sum(amount_nano_usd)::bigint as actual
     from entries where ($1::uuid is null or tenant_id = $1)
     group by tenant_id, transaction_id having sum(amount_nano_usd) <> 0`,
  ],
  [
    LedgerFaultKind.UNBALANCED_TRANSACTION,
    // A movement without entries moved nothing, whatever it says.
    `select tenant_id, id as subject_id, amount_nano_usd as expected, 0::bigint as actual from transactions t
     where ($1::uuid is null or tenant_id = $1)
       and not exists (select from entries e where e.tenant_id = t.tenant_id and e.transaction_id = t.id)`,
  ],
  [
    LedgerFaultKind.UNBALANCED_TRANSACTION,
    // What a list says of a credit or payment is what the organization gained by it; charges are checked below.
    `select t.tenant_id, t.id as subject_id, coalesce(gained, 0)::bigint as expected, t.amount_nano_usd as actual
     from transactions t cross join lateral (select -sum(amount_nano_usd) as gained from entries e
       where e.tenant_id = t.tenant_id and e.transaction_id = t.id and account
         in (${numbers.receivable}, ${numbers.wallet}, ${numbers.promotional}, ${numbers.commitment}, ${numbers.overdraft}))
         as entries_of_it
     where ($1::uuid is null or t.tenant_id = $1) and t.type > ${TransactionType.USAGE}
       and t.amount_nano_usd <> coalesce(gained, 0)`,
  ],
  [
    LedgerFaultKind.WRONG_BALANCE,
    // Includes entries of an organization without an account; below, those of lots and commitments that are gone.
    `select tenant_id, tenant_id as subject_id, coalesce(booked, 0)::bigint as expected, coalesce(balance, 0) as actual
     from (select tenant_id, account, balance from accounts
     cross join lateral (values (${numbers.receivable}, receivable), (${numbers.wallet}, wallet),
       (${numbers.promotional}, promotional), (${numbers.commitment}, commitment), (${numbers.revenue}, revenue),
       (${numbers.expiredCredit}, expired_credit), (${numbers.paygAccrual}, payg_accrual), (${numbers.funding}, funding),
       (${numbers.grantedCredit}, granted_credit), (${numbers.overdraft}, overdraft)) as balances (account, balance)) as kept
     full join (select tenant_id, account, sum(amount_nano_usd) as booked from entries group by 1, 2) as sums
       using (tenant_id, account)
     where ($1::uuid is null or tenant_id = $1) and coalesce(balance, 0) <> coalesce(booked, 0)`,
  ],
  [
    LedgerFaultKind.WRONG_BALANCE,
    `select tenant_id, id as subject_id, coalesce(expected, 0)::bigint as expected, coalesce(actual, 0) as actual
     from lots full join (select tenant_id, item_id as id, -sum(amount_nano_usd) as booked,
         -sum(amount_nano_usd) filter (where amount_nano_usd < 0) as given
       from entries where account in (${numbers.wallet}, ${numbers.promotional}) group by 1, 2) as sums using (tenant_id, id)
     cross join lateral (values (booked, remaining_nano_usd), (given, granted_nano_usd)) as amounts (expected, actual)
     where ($1::uuid is null or tenant_id = $1) and coalesce(actual, 0) <> coalesce(expected, 0)`,
  ],
  [
    LedgerFaultKind.WRONG_BALANCE,
    `select tenant_id, id as subject_id, coalesce(expected, 0)::bigint as expected, coalesce(actual, 0) as actual
     from commitments full join (select tenant_id, item_id as id, -sum(amount_nano_usd) as booked,
         -sum(amount_nano_usd) filter (where amount_nano_usd < 0) as agreed
       from entries where account = ${numbers.commitment} group by 1, 2) as sums using (tenant_id, id)
     cross join lateral (values (booked, amount_nano_usd - consumed_nano_usd - expired_nano_usd), (agreed, amount_nano_usd))
       as amounts (expected, actual)
     where ($1::uuid is null or tenant_id = $1) and coalesce(actual, 0) <> coalesce(expected, 0)`,
  ],
  [
    LedgerFaultKind.WRONG_BALANCE,
    // Each transaction continues from the wallet's balance after the previous one.
    `select tenant_id, id as subject_id, (previous + moved)::bigint as expected, balance_after_nano_usd as actual
     from (
       select tenant_id, id, balance_after_nano_usd, coalesce(moved, 0) as moved,
         lag(balance_after_nano_usd, 1, case when unordered_until is null then 0 end)
           over (partition by tenant_id order by id) as previous
       from transactions join accounts using (tenant_id)
       left join (select tenant_id, transaction_id as id, -sum(amount_nano_usd) as moved from entries
         where account in (${numbers.wallet}, ${numbers.promotional}, ${numbers.overdraft}) group by 1, 2) as movements using (tenant_id, id)
       where ($1::uuid is null or tenant_id = $1) and (unordered_until is null or id > unordered_until)) as chain
     where balance_after_nano_usd <> previous + moved`,
  ],
  [
    LedgerFaultKind.WRONG_CHARGE,
    `select t.tenant_id, t.id as subject_id, -coalesce(sum(e.amount_nano_usd), 0)::bigint as expected,
       -t.amount_nano_usd as actual
     from transactions t left join entries e
       on e.tenant_id = t.tenant_id and e.transaction_id = t.id and e.account = ${numbers.revenue}
     where ($1::uuid is null or t.tenant_id = $1) and t.type = ${TransactionType.USAGE}
     group by t.tenant_id, t.id, t.amount_nano_usd
     having t.amount_nano_usd <> coalesce(sum(e.amount_nano_usd), 0)`,
  ],
  [
    LedgerFaultKind.WRONG_CHARGE,
    `select tenant_id, usage_event_id as subject_id, max(-amount_nano_usd) as expected,
       sum(-amount_nano_usd)::bigint as actual
     from transactions where ($1::uuid is null or tenant_id = $1) and usage_event_id is not null
     group by tenant_id, usage_event_id having count(*) > 1`,
  ],
  [
    LedgerFaultKind.WRONG_INVOICE,
    // Includes charges whose invoice is gone.
    `select tenant_id, coalesce(i.id, tenant_id) as subject_id, coalesce(charged, 0)::bigint as expected,
       coalesce(i.subtotal_nano_usd, 0) as actual
     from invoices i
     full join (select tenant_id, invoice_month as month, -sum(amount_nano_usd) as charged from transactions
       where type = ${TransactionType.USAGE} group by 1, 2) as charges using (tenant_id, month)
     where ($1::uuid is null or tenant_id = $1) and coalesce(i.subtotal_nano_usd, 0) <> coalesce(charged, 0)`,
  ],
  [
    LedgerFaultKind.WRONG_INVOICE,
    `select tenant_id, i.id as subject_id, i.subtotal_nano_usd as expected, coalesce(listed, 0)::bigint as actual
     from invoices i left join (select tenant_id, month, sum(amount_nano_usd) as listed from invoice_lines group by 1, 2)
       as lines using (tenant_id, month)
     where ($1::uuid is null or tenant_id = $1) and i.subtotal_nano_usd <> coalesce(listed, 0)`,
  ],
  [
    LedgerFaultKind.WRONG_INVOICE,
    `select tenant_id, i.id as subject_id, coalesce(accrued, 0)::bigint as expected, i.total_nano_usd as actual
     from invoices i
     left join (select t.tenant_id, t.invoice_month as month, sum(e.amount_nano_usd) as accrued
       from transactions t join entries e on e.tenant_id = t.tenant_id and e.transaction_id = t.id
       where t.type = ${TransactionType.USAGE} and e.account = ${numbers.paygAccrual} group by 1, 2) as accruals
       using (tenant_id, month)
     where ($1::uuid is null or tenant_id = $1) and i.total_nano_usd <> coalesce(accrued, 0)`,
  ],
  [
    LedgerFaultKind.WRONG_INVOICE,
    // What invoices ask for equals what is booked as owed.
    `select tenant_id, tenant_id as subject_id, receivable as expected, coalesce(open, 0)::bigint as actual
     from accounts left join (select tenant_id, sum(total_nano_usd) as open from invoices
       where status = ${InvoiceStatus.FINALIZED} and paid_at is null group by 1) as unpaid using (tenant_id)
     where ($1::uuid is null or tenant_id = $1) and receivable <> coalesce(open, 0)`,
  ],
];

/** How long one statement of the verification may run, in milliseconds: it reads the whole ledger, which may have grown for years. */
const statementTimeoutMs = 6 * 3_600_000;

type Verdict = MessageInitShape<typeof VerifyLedgerResponseSchema>;

/** Recomputes every sum from the entries, of one organization or (null) of all. */
export const verifyLedgerOf = (
  database: Pick<ServiceDatabase, 'pool'>,
  tenantId: string | null,
  signal?: AbortSignal,
): Promise<Verdict> =>
  withTimeToVerify(database, signal, async (sql) => {
    const faults = await findFaults(sql, tenantId);
    const count = async (table: 'transactions' | 'entries'): Promise<bigint> => {
      const { rows } = await sql.query<{ count: bigint }>({
        text: `select count(*) from ${table} where $1::uuid is null or tenant_id = $1`,
        values: [tenantId],
      });
      return rows[0]!.count;
    };
    return { transactionsChecked: await count('transactions'), entriesChecked: await count('entries'), faults };
  });

/**
 * A transaction whose statements may run long enough. Each sees its own moment: one moment for all would keep Postgres for hours from tidying
 * up the rows of accounts, which every charge rewrites.
 */
export const withTimeToVerify = <T>(
  database: Pick<ServiceDatabase, 'pool'>,
  signal: AbortSignal | undefined,
  work: (sql: Sql) => Promise<T>,
): Promise<T> => longTransaction(database, { statementTimeoutMs, signal }, work);

/** What is wrong, of one organization or (null) of all. */
export async function findFaults(sql: Sql, tenantId: string | null): Promise<NonNullable<Verdict['faults']>> {
  const faults = [];
  for (const [kind, text] of checks) {
    const { rows } = await sql.query<Fault>({ text: `${text} limit ${faultsMax}`, values: [tenantId] });
    for (const { tenant_id, subject_id, expected, actual } of rows) {
      faults.push({
        kind,
        tenantId: tenant_id,
        subjectId: subject_id,
        expectedNanoUsd: expected,
        actualNanoUsd: actual,
      });
    }
  }
  return faults;
}
