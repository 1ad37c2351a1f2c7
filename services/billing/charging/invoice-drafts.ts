import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import type { PriceUnit } from '#gen/modelgateway/billing/v1/price_usage_pb.ts';
import { plainArray, type Sql } from '#shared/db/sql.ts';
import { uuidv7 } from '#shared/ids.ts';
import { monthOf, nextMonthMs, type PeriodStart, startOfPeriodMs } from '../domain/period.ts';
import type { PricedLine } from '../domain/priced-lines.ts';

type Line = PricedLine & { model: string; usageMonth: PeriodStart };
type Draft = {
  tenantId: string;
  month: PeriodStart;
  subtotalNanoUsd: bigint;
  paygNanoUsd: bigint;
  lines: Map<string, Line[]>;
};

/** What a batch of charges adds to the invoice drafts of its organizations. */
export class DraftAdditions {
  /** An organization usually has one. */
  readonly #drafts = new Map<string, Draft[]>();

  add(
    tenantId: string,
    month: PeriodStart,
    model: string,
    charge: { usageMonth: PeriodStart; lines: readonly PricedLine[]; costNanoUsd: bigint; paygNanoUsd: bigint },
  ): void {
    const draft = this.#draft(tenantId, month);
    draft.subtotalNanoUsd += charge.costNanoUsd;
    draft.paygNanoUsd += charge.paygNanoUsd;
    let sums = draft.lines.get(model);
    if (sums === undefined) {
      sums = [];
      draft.lines.set(model, sums);
    }
    for (const line of charge.lines) {
      const sum = sums.find(
        ({ unit, unitPriceNanoUsd, usageMonth }) =>
          unit === line.unit && unitPriceNanoUsd === line.unitPriceNanoUsd && usageMonth === charge.usageMonth,
      );
      if (sum === undefined) {
        sums.push({ ...line, model, usageMonth: charge.usageMonth });
      } else {
        sum.quantity += line.quantity;
        sum.amountNanoUsd += line.amountNanoUsd;
      }
    }
  }

  #draft(tenantId: string, month: PeriodStart): Draft {
    const drafts = this.#drafts.get(tenantId) ?? [];
    let draft = drafts.find((other) => other.month === month);
    if (draft === undefined) {
      draft = { tenantId, month, subtotalNanoUsd: 0n, paygNanoUsd: 0n, lines: new Map() };
      drafts.push(draft);
      this.#drafts.set(tenantId, drafts);
    }
    return draft;
  }

  /** Writes the additions, creating missing drafts. The organizations are locked. */
  async save(sql: Sql): Promise<void> {
    const drafts = [...this.#drafts.values()].flat();
    if (drafts.length === 0) return;
    await sql.query({
      name: 'add-to-drafts',
      text: `
        insert into invoices as kept (tenant_id, id, month, subtotal_nano_usd, credits_nano_usd, total_nano_usd)
        select * from unnest($1::uuid[], $2::uuid[], $3::date[], $4::bigint[], $5::bigint[], $6::bigint[])
        on conflict (tenant_id, month) do update set
          subtotal_nano_usd = kept.subtotal_nano_usd + excluded.subtotal_nano_usd,
          credits_nano_usd = kept.credits_nano_usd + excluded.credits_nano_usd,
          total_nano_usd = kept.total_nano_usd + excluded.total_nano_usd`,
      values: [
        plainArray(drafts.map((draft) => draft.tenantId)),
        plainArray(drafts.map(() => uuidv7())),
        plainArray(drafts.map((draft) => draft.month)),
        plainArray(drafts.map((draft) => draft.subtotalNanoUsd)),
        plainArray(drafts.map((draft) => draft.subtotalNanoUsd - draft.paygNanoUsd)),
        plainArray(drafts.map((draft) => draft.paygNanoUsd)),
      ],
    });
    const lines = drafts.flatMap(({ tenantId, month, lines }) =>
      [...lines.values()].flat().map((line) => ({ tenantId, month, ...line })),
    );
    await sql.query({
      name: 'add-to-lines',
      text: `
        insert into invoice_lines as kept
          (tenant_id, month, model, unit, unit_price_nano_usd, usage_month, quantity, amount_nano_usd)
        select * from unnest(
          $1::uuid[], $2::date[], $3::text[], $4::smallint[], $5::bigint[], $6::date[], $7::bigint[], $8::bigint[])
        on conflict (tenant_id, month, model, unit, unit_price_nano_usd, usage_month) do update set
          quantity = kept.quantity + excluded.quantity,
          amount_nano_usd = kept.amount_nano_usd + excluded.amount_nano_usd`,
      values: [
        plainArray(lines.map((line) => line.tenantId)),
        plainArray(lines.map((line) => line.month)),
        lines.map((line) => line.model),
        plainArray(lines.map((line): PriceUnit => line.unit)),
        plainArray(lines.map((line) => line.unitPriceNanoUsd)),
        plainArray(lines.map((line) => line.usageMonth)),
        plainArray(lines.map((line) => line.quantity)),
        plainArray(lines.map((line) => line.amountNanoUsd)),
      ],
    });
  }
}

/** The months of locked organizations, from one on, whose invoices accept no further charges, as `tenant month`. */
export async function closedMonths(
  sql: Sql,
  tenantIds: readonly string[],
  firstMonth: PeriodStart,
): Promise<Set<string>> {
  const { rows } = await sql.query<{ tenant_id: string; month: string }>({
    name: 'closed-months',
    text: `
      select tenant_id, month from invoices
      where tenant_id = any($1::uuid[]) and month >= $2 and status <> ${InvoiceStatus.DRAFT}`,
    values: [plainArray(tenantIds), firstMonth],
  });
  return new Set(rows.map(({ tenant_id, month }) => `${tenant_id} ${month}`));
}

/** Usually the month itself. The current one's invoice is final if the database's clock was ahead and went back. */
export function firstOpenMonth(closed: ReadonlySet<string>, tenantId: string, month: PeriodStart): PeriodStart {
  let open = month;
  while (closed.has(`${tenantId} ${open}`)) open = monthOf(nextMonthMs(startOfPeriodMs(open)));
  return open;
}
