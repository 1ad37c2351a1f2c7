import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Sql } from '../db/sql.ts';
import { accountOfLot } from '../domain/draw-order.ts';
import { postingDefaults, transfer } from '../domain/ledger.ts';
import { type Account, requireRoomInAccount } from './accounts.ts';
import { type Posted, post } from './post.ts';

/** A lot that is to be opened. */
export type NewCredit = {
  source: LotSource;
  amountNanoUsd: bigint;
  expiresAtMs: number | null;
  description: string;
  requestId: string | null;
  /** What kind of movement it is, when not the ordinary one of its source. */
  type?: TransactionType;
  reversesId?: string;
  /** Where the money comes from, when not from the ordinary place of its source. */
  from?: 'funding' | 'grantedCredit' | 'revenue';
};

/** Opens a lot of a locked organization and posts it; CONFLICT when the account cannot hold more. */
export async function openLot(
  sql: Sql,
  account: Account,
  credit: NewCredit,
  nowMs: number,
): Promise<{ lotId: string; posted: Posted }> {
  const { source, amountNanoUsd, expiresAtMs, description, requestId } = credit;
  requireRoomInAccount(account, amountNanoUsd);
  const lotId = uuidv7();
  await sql.query({
    text: `
      insert into lots (tenant_id, id, source, granted_nano_usd, remaining_nano_usd, expires_at, created_at)
      values ($1, $2, $3, $4, $4, $5, $6)`,
    values: [
      account.tenantId,
      lotId,
      source,
      amountNanoUsd,
      expiresAtMs === null ? null : new Date(expiresAtMs),
      new Date(nowMs),
    ],
  });
  const isBought = source === LotSource.PURCHASE;
  const posting = {
    ...postingDefaults,
    id: uuidv7(),
    type: credit.type ?? (isBought ? TransactionType.PURCHASE : TransactionType.GRANT),
    amountNanoUsd,
    description,
    requestId,
    reversesId: credit.reversesId ?? null,
    entries: transfer(amountNanoUsd, credit.from ?? (isBought ? 'funding' : 'grantedCredit'), accountOfLot(source), {
      credited: lotId,
    }),
  };
  const [posted] = await post(sql, [{ account, postings: [posting] }], nowMs);
  return { lotId, posted: posted! };
}

/** The transaction which an earlier request with this id posted, and the lot it opened; null when there was none. */
export async function findRequest(
  sql: Sql,
  tenantId: string,
  requestId: string,
): Promise<{ transactionId: string; lotId: string | null } | null> {
  const { rows } = await sql.query<{ id: string; item_id: string | null }>({
    text: `
      select transactions.id, entries.item_id from transactions
      left join entries on entries.tenant_id = transactions.tenant_id and entries.transaction_id = transactions.id
        and entries.item_id is not null
      where transactions.tenant_id = $1 and transactions.request_id = $2 limit 1`,
    values: [tenantId, requestId],
  });
  return rows[0] === undefined ? null : { transactionId: rows[0].id, lotId: rows[0].item_id };
}
