import { plainArray, type Sql } from '#shared/db/sql.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { type Balances, balanceNanoUsdMax } from '../domain/ledger.ts';
import type { PeriodStart } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';

/** An organization's money, as stored in its row. */
export type Account = {
  tenantId: string;
  /** Null: the default plan. */
  planCode: string | null;
  /** Null: none. */
  paygCapNanoUsd: bigint | null;
  /** The last of its transactions in the order of ids; null: none yet. */
  lastTransactionId: string | null;
  balances: Balances;
} & CreditNote;

/** What a plan includes each month, and when it was last asked for it. */
export type CreditNote = {
  monthlyCreditNanoUsd: bigint;
  /** First day of the last month for which the plan was asked; null: none yet. */
  creditMonth: PeriodStart | null;
  /** What it included then; null: unknown. */
  includedNanoUsd: bigint | null;
};

type AccountRow = {
  tenant_id: string;
  plan_code: string | null;
  payg_cap_nano_usd: bigint | null;
  monthly_credit_nano_usd: bigint;
  credit_month: PeriodStart | null;
  included_nano_usd: bigint | null;
  last_transaction_id: string | null;
  receivable: bigint;
  wallet: bigint;
  promotional: bigint;
  commitment: bigint;
  revenue: bigint;
  expired_credit: bigint;
  payg_accrual: bigint;
  funding: bigint;
  granted_credit: bigint;
  overdraft: bigint;
};

/** Listed by name: a statement prepared for all columns fails once there is a new one. */
const columns = `tenant_id, plan_code, payg_cap_nano_usd, receivable, wallet, promotional, commitment, revenue, expired_credit,
  payg_accrual, funding, granted_credit, overdraft, last_transaction_id, credit_months.month as credit_month, included_nano_usd,
  (select monthly_credit_nano_usd from plans where code = coalesce(plan_code, '${defaultPlanCode}')) as monthly_credit_nano_usd`;

const noBalances: Balances = {
  receivable: 0n,
  wallet: 0n,
  promotional: 0n,
  commitment: 0n,
  revenue: 0n,
  expiredCredit: 0n,
  paygAccrual: 0n,
  funding: 0n,
  grantedCredit: 0n,
  overdraft: 0n,
};

/** An organization that has never moved money. */
const emptyAccount = (tenantId: string): Account => ({
  tenantId,
  planCode: null,
  paygCapNanoUsd: null,
  monthlyCreditNanoUsd: 0n,
  creditMonth: null,
  includedNanoUsd: null,
  lastTransactionId: null,
  balances: { ...noBalances },
});

/**
 * Locks organizations until the end of the transaction, creating rows for new ones. Call this before moving money: locks are taken in the
 * order accounts, spend, leases, each by its key, so that nobody waits in a circle.
 */
export async function lockAccounts(sql: Sql, tenantIds: readonly string[]): Promise<Map<string, Account>> {
  const locked = await selectForUpdate(sql, tenantIds);
  if (locked.size === tenantIds.length) return locked;
  await sql.query({
    name: 'add-accounts',
    text: 'insert into accounts (tenant_id) select id from unnest($1::uuid[]) as id order by id on conflict do nothing',
    values: [plainArray(tenantIds)],
  });
  // These include the locks held already, in the same order.
  return selectForUpdate(sql, tenantIds);
}

/** Locks one organization, as `lockAccounts` does. */
export async function lockAccount(sql: Sql, tenantId: string): Promise<Account> {
  const locked = await lockAccounts(sql, [tenantId]);
  return locked.get(tenantId)!;
}

/** Reads an organization without a lock; one without a row is empty. */
export async function readAccount(sql: Sql, tenantId: string): Promise<Account> {
  const { rows } = await sql.query<AccountRow>({
    name: 'read-account',
    text: `select ${columns} from accounts left join credit_months using (tenant_id) where tenant_id = $1`,
    values: [tenantId],
  });
  return rows[0] === undefined ? emptyAccount(tenantId) : account(rows[0]);
}

async function selectForUpdate(sql: Sql, tenantIds: readonly string[]): Promise<Map<string, Account>> {
  const { rows } = await sql.query<AccountRow>({
    name: 'lock-accounts',
    text: `
      select ${columns} from accounts left join credit_months using (tenant_id)
      where tenant_id = any($1::uuid[]) order by tenant_id for update of accounts`,
    values: [plainArray(tenantIds)],
  });
  return new Map(rows.map((row) => [row.tenant_id, account(row)]));
}

const account = (row: AccountRow): Account => ({
  tenantId: row.tenant_id,
  planCode: row.plan_code,
  paygCapNanoUsd: row.payg_cap_nano_usd,
  monthlyCreditNanoUsd: row.monthly_credit_nano_usd,
  creditMonth: row.credit_month,
  includedNanoUsd: row.included_nano_usd,
  lastTransactionId: row.last_transaction_id,
  balances: {
    receivable: row.receivable,
    wallet: row.wallet,
    promotional: row.promotional,
    commitment: row.commitment,
    revenue: row.revenue,
    expiredCredit: row.expired_credit,
    paygAccrual: row.payg_accrual,
    funding: row.funding,
    grantedCredit: row.granted_credit,
    overdraft: row.overdraft,
  },
});

/** Whether an account can take this much more. */
export const hasRoomInAccount = ({ balances }: Account, amountNanoUsd: bigint): boolean =>
  balances.funding + balances.grantedCredit + amountNanoUsd <= balanceNanoUsdMax;

/** Refuses to take in more than an account can hold. */
export function requireRoomInAccount(account: Account, amountNanoUsd: bigint): void {
  if (!hasRoomInAccount(account, amountNanoUsd)) {
    throw gatewayError(ErrorReason.CONFLICT, 'The account of the organization cannot hold that much credit.');
  }
}
