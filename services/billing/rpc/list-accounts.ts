import { AccountStanding, FundsState } from '#gen/modelgateway/billing/v1/account_summary_pb.ts';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import { plainArray } from '#shared/db/sql.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { dayOf, monthOf, startOfPeriodMs } from '../domain/period.ts';
import { defaultPlanCode } from '../domain/plan-default.ts';

const accountsMax = 1_000;

type Row = {
  tenant_id: string;
  plan_code: string;
  plan_name: string;
  spent: bigint;
  credit: bigint;
  /** Null: no limit. */
  left_to_spend: bigint | null;
  funds: FundsState;
  receivable: bigint;
  overdue: bigint;
};

/** All of it in one statement and without locks. Credit of a plan that is due counts without being given: nobody draws on it here. */
const text = `
  with asked as (
    select tenant_id from unnest($1::uuid[]) as tenant_id
    union select tenant_id from accounts where cardinality($1::uuid[]) = 0),
  figures as (
    select asked.tenant_id, plans.code as plan_code, plans.name as plan_name,
      coalesce(of_month.subtotal_nano_usd, 0) as spent,
      greatest(of_month.subtotal_nano_usd, of_last_month.subtotal_nano_usd, 0) as spent_most,
      coalesce(lots.credit, 0) - coalesce(accounts.overdraft, 0)
        + case when credit_months.month = $3 then greatest(monthly_credit_nano_usd - included_nano_usd, 0)
          else monthly_credit_nano_usd end as credit,
      coalesce(commitments.remaining, 0) as commitment,
      case when not payg_enabled then 0
        when payg_cap_nano_usd is not null then greatest(payg_cap_nano_usd - coalesce(posted_nano_usd, 0), 0) end as payg,
      coalesce(accounts.receivable, 0) as receivable, coalesce(unpaid.overdue, 0) as overdue
    from asked
    left join accounts using (tenant_id)
    join plans on plans.code = coalesce(accounts.plan_code, '${defaultPlanCode}')
    left join credit_months using (tenant_id)
    left join invoices as of_month on of_month.tenant_id = asked.tenant_id and of_month.month = $3
    left join invoices as of_last_month on of_last_month.tenant_id = asked.tenant_id and of_last_month.month = $4
    left join spend on spend.tenant_id = asked.tenant_id and kind = ${BudgetKind.ORGANIZATION}
      and subject_id = asked.tenant_id and period_start = $3
    cross join lateral (
      select sum(remaining_nano_usd)::bigint as credit from lots
      where tenant_id = asked.tenant_id and remaining_nano_usd > 0 and (expires_at is null or expires_at > $2)) as lots
    cross join lateral (
      select sum(amount_nano_usd - consumed_nano_usd - expired_nano_usd)::bigint as remaining from commitments
      where tenant_id = asked.tenant_id and period_start <= $2 and period_end > $2) as commitments
    cross join lateral (
      select sum(total_nano_usd)::bigint as overdue from invoices
      where tenant_id = asked.tenant_id and status = ${InvoiceStatus.FINALIZED} and paid_at is null and due_date < $5
    ) as unpaid),
  accounts_left as (select *, greatest(credit, 0) + commitment + payg as left_to_spend from figures),
  standings as (
    select *, case when left_to_spend = 0 then ${FundsState.EXHAUSTED}
      when left_to_spend <= spent_most / 4 then ${FundsState.LOW} else ${FundsState.SUFFICIENT} end as funds
    from accounts_left)
  select tenant_id, plan_code, plan_name, spent, credit, left_to_spend, funds, receivable, overdue from standings
  where case $6::integer
    when ${AccountStanding.SPENDING} then spent > 0
    when ${AccountStanding.LOW} then funds = ${FundsState.LOW}
    when ${AccountStanding.EXHAUSTED} then funds = ${FundsState.EXHAUSTED}
    when ${AccountStanding.OVERDUE} then overdue > 0
    else true end
  order by spent desc, tenant_id limit ${accountsMax}`;

export const listAccounts =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'listAccounts'> =>
  async ({ tenantIds, standing }, context) => {
    operatorCaller(context);
    const nowMs = await databaseNow(database.pool);
    const month = monthOf(nowMs);
    const lastMonth = monthOf(startOfPeriodMs(month) - 1);
    const { rows } = await database.query<Row>({
      name: 'list-accounts',
      text,
      values: [plainArray(tenantIds), new Date(nowMs), month, lastMonth, dayOf(nowMs), standing],
    });
    return {
      accounts: rows.map((row) => ({
        tenantId: row.tenant_id,
        planCode: row.plan_code,
        planName: row.plan_name,
        spentNanoUsd: row.spent,
        creditNanoUsd: row.credit,
        leftNanoUsd: row.left_to_spend ?? undefined,
        funds: row.funds,
        receivableNanoUsd: row.receivable,
        overdueNanoUsd: row.overdue,
      })),
    };
  };
