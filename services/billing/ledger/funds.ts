import type { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { plainArray, type Sql } from '#shared/db/sql.ts';
import { type Drawable, type DrawableCommitment, type DrawableLot, Funds } from '../domain/draw-order.ts';

type LotRow = {
  tenant_id: string;
  id: string;
  source: LotSource;
  remaining_nano_usd: bigint;
  expired_nano_usd: bigint;
  starts_at: Date | null;
  expires_at: Date | null;
};
type CommitmentRow = {
  tenant_id: string;
  id: string;
  remaining_nano_usd: bigint;
  expired_nano_usd: bigint;
  period_start: Date;
  period_end: Date;
};

/** Now, and since when credit that has ended meanwhile counts too; by default none does. */
type FundsTimes = { nowMs: number; sinceMs?: number };

/**
 * What locked organizations can draw on now, and could since `sinceMs`, written off or not; the rows are locked, by id. Only `draw` and
 * `usable` distinguish the two: for everything else leave `sinceMs` out.
 */
export const lockFunds = (sql: Sql, tenantIds: readonly string[], times: FundsTimes): Promise<Map<string, Funds>> =>
  selectFunds(sql, tenantIds, { ...times, toChange: true });

/**
 * What organizations can draw on now, and could since `sinceMs`, without locks on the rows: nobody changes what locked organizations have, and
 * locking a row writes it. Organizations that are not locked may be read too.
 */
export const readFunds = (sql: Sql, tenantIds: readonly string[], times: FundsTimes): Promise<Map<string, Funds>> =>
  selectFunds(sql, tenantIds, { ...times, toChange: false });

async function selectFunds(
  sql: Sql,
  tenantIds: readonly string[],
  { nowMs, sinceMs = nowMs, toChange }: FundsTimes & { toChange: boolean },
): Promise<Map<string, Funds>> {
  const [verb, lock] = toChange ? ['lock', 'for update'] : ['read', ''];
  const values = [plainArray(tenantIds), new Date(sinceMs)];
  const { rows: commitments } = await sql.query<CommitmentRow>({
    name: `${verb}-commitments`,
    text: `
      select tenant_id, id, amount_nano_usd - consumed_nano_usd - expired_nano_usd as remaining_nano_usd,
        expired_nano_usd, period_start, period_end
      from commitments
      where tenant_id = any($1::uuid[]) and period_end > $2 and period_start <= $3
        and consumed_nano_usd < amount_nano_usd
      order by tenant_id, id ${lock}`,
    values: [...values, new Date(nowMs)],
  });
  const { rows: lots } = await sql.query<LotRow>({
    name: `${verb}-lots`,
    text: `
      select tenant_id, id, source, remaining_nano_usd, expired_nano_usd, starts_at, expires_at from lots
      where tenant_id = any($1::uuid[]) and (remaining_nano_usd > 0 or expired_nano_usd > 0)
        and (expires_at is null or expires_at > $2)
      order by tenant_id, id ${lock}`,
    values,
  });
  const commitmentsOf = Map.groupBy(commitments, (row) => row.tenant_id);
  const lotsOf = Map.groupBy(lots, (row) => row.tenant_id);
  return new Map(
    tenantIds.map((tenantId) => [
      tenantId,
      new Funds(
        (commitmentsOf.get(tenantId) ?? []).map(drawableCommitment),
        (lotsOf.get(tenantId) ?? []).map(drawableLot),
      ),
    ]),
  );
}

const drawableCommitment = (row: CommitmentRow): DrawableCommitment => ({
  id: row.id,
  remainingNanoUsd: row.remaining_nano_usd,
  expiredNanoUsd: row.expired_nano_usd,
  startsAtMs: row.period_start.getTime(),
  endsAtMs: row.period_end.getTime(),
});

const drawableLot = (row: LotRow): DrawableLot => ({
  id: row.id,
  source: row.source,
  remainingNanoUsd: row.remaining_nano_usd,
  expiredNanoUsd: row.expired_nano_usd,
  startsAtMs: row.starts_at?.getTime() ?? null,
  expiresAtMs: row.expires_at?.getTime() ?? null,
});

/** Writes what is left of the lots and commitments that were drawn on. */
export async function saveFunds(sql: Sql, funds: ReadonlyMap<string, Funds>): Promise<void> {
  const changed = [...funds].map(([tenantId, own]) => ({ tenantId, ...own.changed }));
  const lots = changed.flatMap(({ tenantId, lots }) => lots.map((lot) => ({ tenantId, ...lot })));
  const commitments = changed.flatMap(({ tenantId, commitments }) => commitments.map((row) => ({ tenantId, ...row })));
  if (lots.length > 0) {
    await sql.query({
      name: 'save-lots',
      text: `
        update lots set remaining_nano_usd = drawn.remaining, expired_nano_usd = drawn.expired
        from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[]) as drawn (tenant_id, id, remaining, expired)
        where lots.tenant_id = drawn.tenant_id and lots.id = drawn.id`,
      values: columns(lots),
    });
  }
  if (commitments.length > 0) {
    await sql.query({
      name: 'save-commitments',
      text: `
        update commitments set consumed_nano_usd = amount_nano_usd - drawn.expired - drawn.remaining,
          expired_nano_usd = drawn.expired
        from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[]) as drawn (tenant_id, id, remaining, expired)
        where commitments.tenant_id = drawn.tenant_id and commitments.id = drawn.id`,
      values: columns(commitments),
    });
  }
}

const columns = (rows: readonly (Drawable & { tenantId: string })[]): unknown[][] => [
  rows.map(({ tenantId }) => tenantId),
  rows.map(({ id }) => id),
  rows.map(({ remainingNanoUsd }) => remainingNanoUsd),
  rows.map(({ expiredNanoUsd }) => expiredNanoUsd),
];
