import { InvoiceStatus } from '#gen/modelgateway/billing/v1/invoice_pb.ts';
import type { PriceUnit } from '#gen/modelgateway/billing/v1/price_usage_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Sql } from '../db/sql.ts';
import type { PeriodStart } from '../domain/period.ts';
import type { PricedLine } from '../domain/priced-lines.ts';

type Line = PricedLine & { tenantId: string; month: PeriodStart; model: string };
type Sum = { tenantId: string; month: PeriodStart; subtotalNanoUsd: bigint; paygNanoUsd: bigint };

/** What a batch of charges adds to the drafts of its organizations. */
export class DraftAdditions {
  readonly #lines = new Map<string, Line>();
  readonly #sums = new Map<string, Sum>();

  add(
    tenantId: string,
    month: PeriodStart,
    model: string,
    charge: { lines: readonly PricedLine[]; costNanoUsd: bigint; paygNanoUsd: bigint },
  ): void {
    for (const line of charge.lines) {
      const key = `${tenantId} ${month} ${line.unit} ${line.unitPriceNanoUsd} ${model}`;
      const sum = this.#lines.get(key);
      if (sum === undefined) {
        this.#lines.set(key, { ...line, tenantId, month, model });
      } else {
        sum.quantity += line.quantity;
        sum.amountNanoUsd += line.amountNanoUsd;
      }
    }
    const key = `${tenantId} ${month}`;
    const sum = this.#sums.get(key) ?? { tenantId, month, subtotalNanoUsd: 0n, paygNanoUsd: 0n };
    sum.subtotalNanoUsd += charge.costNanoUsd;
    sum.paygNanoUsd += charge.paygNanoUsd;
    this.#sums.set(key, sum);
  }

  /** Writes them, making the drafts that are not there. The organizations are locked. */
  async save(sql: Sql): Promise<void> {
    const sums = [...this.#sums.values()];
    if (sums.length === 0) return;
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
        sums.map((sum) => sum.tenantId),
        sums.map(() => uuidv7()),
        sums.map((sum) => sum.month),
        sums.map((sum) => sum.subtotalNanoUsd),
        sums.map((sum) => sum.subtotalNanoUsd - sum.paygNanoUsd),
        sums.map((sum) => sum.paygNanoUsd),
      ],
    });
    const lines = [...this.#lines.values()];
    await sql.query({
      name: 'add-to-lines',
      text: `
        insert into invoice_lines as kept (tenant_id, month, model, unit, unit_price_nano_usd, quantity, amount_nano_usd)
        select * from unnest($1::uuid[], $2::date[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[])
        on conflict (tenant_id, month, model, unit, unit_price_nano_usd) do update set
          quantity = kept.quantity + excluded.quantity,
          amount_nano_usd = kept.amount_nano_usd + excluded.amount_nano_usd`,
      values: [
        lines.map((line) => line.tenantId),
        lines.map((line) => line.month),
        lines.map((line) => line.model),
        lines.map((line): PriceUnit => line.unit),
        lines.map((line) => line.unitPriceNanoUsd),
        lines.map((line) => line.quantity),
        lines.map((line) => line.amountNanoUsd),
      ],
    });
  }
}

/** The months of locked organizations whose invoices are closed to further charges, as `tenant month`. */
export async function closedMonths(sql: Sql, tenantIds: readonly string[]): Promise<Set<string>> {
  const { rows } = await sql.query<{ tenant_id: string; month: string }>({
    name: 'closed-months',
    text: `select tenant_id, month from invoices where tenant_id = any($1::uuid[]) and status <> ${InvoiceStatus.DRAFT}`,
    values: [tenantIds],
  });
  return new Set(rows.map(({ tenant_id, month }) => `${tenant_id} ${month}`));
}
