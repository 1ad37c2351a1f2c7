import type { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { accountOfLot } from '../domain/draw-order.ts';
import { type LedgerAccount, type Posting, postingDefaults, transfer } from '../domain/ledger.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { post } from '../ledger/post.ts';
import { eachOrganization, type WorkerDeps } from './each-organization.ts';

/** Writes off what is left of expired lots and commitments. Draws never wait for it. Returns how many rows were written off. */
export async function expireCredit(deps: WorkerDeps): Promise<number> {
  const { database, databaseNow } = deps;
  const { rows } = await database.query<{ tenant_id: string }>({
    name: 'tenants-with-expired-credit',
    text: `
      select tenant_id from lots where remaining_nano_usd > 0 and expires_at <= $1
      union
      select tenant_id from commitments
      where consumed_nano_usd + expired_nano_usd < amount_nano_usd and period_end <= $1`,
    values: [new Date(await databaseNow(database.pool))],
  });
  return eachOrganization(deps, rows, async (sql, { tenant_id }) => {
    const account = await lockAccount(sql, tenant_id);
    const nowMs = await databaseNow(sql);
    const postings = [
      ...(await expireLots(sql, tenant_id, nowMs)),
      ...(await expireCommitments(sql, tenant_id, nowMs)),
    ];
    await post(sql, [{ account, postings }], nowMs);
    return postings.length;
  });
}

async function expireLots(sql: Sql, tenantId: string, nowMs: number): Promise<Posting[]> {
  const { rows } = await sql.query<{ id: string; source: LotSource; remaining_nano_usd: bigint }>({
    text: `
      select id, source, remaining_nano_usd from lots
      where tenant_id = $1 and remaining_nano_usd > 0 and expires_at <= $2 order by id for update`,
    values: [tenantId, new Date(nowMs)],
  });
  await sql.query({
    text: 'update lots set expired_nano_usd = remaining_nano_usd, remaining_nano_usd = 0 where tenant_id = $1 and id = any($2::uuid[])',
    values: [tenantId, rows.map(({ id }) => id)],
  });
  return rows.map(({ id, source, remaining_nano_usd }) =>
    expiry(id, accountOfLot(source), remaining_nano_usd, 'Credit expired'),
  );
}

async function expireCommitments(sql: Sql, tenantId: string, nowMs: number): Promise<Posting[]> {
  const { rows } = await sql.query<{ id: string; remaining_nano_usd: bigint }>({
    text: `
      select id, amount_nano_usd - consumed_nano_usd - expired_nano_usd as remaining_nano_usd from commitments
      where tenant_id = $1 and consumed_nano_usd + expired_nano_usd < amount_nano_usd and period_end <= $2
      order by id for update`,
    values: [tenantId, new Date(nowMs)],
  });
  await sql.query({
    text: `
      update commitments set expired_nano_usd = amount_nano_usd - consumed_nano_usd
      where tenant_id = $1 and id = any($2::uuid[])`,
    values: [tenantId, rows.map(({ id }) => id)],
  });
  return rows.map(({ id, remaining_nano_usd }) => expiry(id, 'commitment', remaining_nano_usd, 'Commitment ended'));
}

const expiry = (itemId: string, account: LedgerAccount, amountNanoUsd: bigint, description: string): Posting => ({
  ...postingDefaults,
  type: TransactionType.EXPIRY,
  amountNanoUsd: -amountNanoUsd,
  description,
  entries: transfer(amountNanoUsd, account, 'expiredCredit', { debited: itemId }),
});
