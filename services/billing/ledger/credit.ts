import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { idempotencyKeyReused } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Sql } from '../db/sql.ts';
import { accountOfLot } from '../domain/draw-order.ts';
import { postingDefaults, transfer } from '../domain/ledger.ts';
import { type Account, requireRoomInAccount } from './accounts.ts';
import { type Posted, post } from './post.ts';

/** Credit to be given. */
type NewCredit = {
  source: LotSource;
  amountNanoUsd: bigint;
  /** Calls made before this draw nothing from it; absent: there is no such limit. */
  startsAtMs?: number;
  expiresAtMs: number | null;
  description: string;
  requestId: string | null;
  /** The kind of movement, if not the usual one of its source. */
  type?: TransactionType;
  reversesId?: string;
  /** Where the money comes from, if not from the usual account of its source. */
  from?: 'funding' | 'grantedCredit' | 'revenue';
};

/** The usual movement for credit from a source. */
export const typeOfCredit = (source: LotSource): TransactionType =>
  source === LotSource.PURCHASE ? TransactionType.PURCHASE : TransactionType.GRANT;

/** Gives credit to a locked organization and posts it; CONFLICT when the account cannot hold more. */
export async function giveCredit(
  sql: Sql,
  account: Account,
  credit: NewCredit,
  nowMs: number,
): Promise<{ lotId: string; posted: Posted }> {
  const { source, amountNanoUsd, description, requestId } = credit;
  requireRoomInAccount(account, amountNanoUsd);
  const lotId = (await addToLot(sql, account, credit)) ?? (await openLot(sql, account, credit, nowMs));
  const isBought = source === LotSource.PURCHASE;
  const posting = {
    ...postingDefaults,
    type: credit.type ?? typeOfCredit(source),
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

/**
 * Adds refunds and corrections, which never expire, to the lot of earlier ones, if anything is left of it: there may be one for each call of
 * an outage, and every charge reads each lot of a wallet. Null when a lot has to be opened.
 */
async function addToLot(sql: Sql, { tenantId }: Account, { source, amountNanoUsd }: NewCredit): Promise<string | null> {
  if (source !== LotSource.ADJUSTMENT) return null;
  const { rows } = await sql.query<{ id: string }>({
    text: `
      update lots set granted_nano_usd = granted_nano_usd + $2, remaining_nano_usd = remaining_nano_usd + $2
      where tenant_id = $1 and id = (
        select id from lots
        where tenant_id = $1 and source = ${LotSource.ADJUSTMENT} and remaining_nano_usd > 0
        order by id desc limit 1)
      returning id`,
    values: [tenantId, amountNanoUsd],
  });
  return rows[0]?.id ?? null;
}

async function openLot(
  sql: Sql,
  { tenantId }: Account,
  { source, amountNanoUsd, startsAtMs, expiresAtMs }: NewCredit,
  nowMs: number,
): Promise<string> {
  const id = uuidv7();
  await sql.query({
    text: `
      insert into lots (tenant_id, id, source, granted_nano_usd, remaining_nano_usd, starts_at, expires_at, created_at)
      values ($1, $2, $3, $4, $4, $5, $6, $7)`,
    values: [
      tenantId,
      id,
      source,
      amountNanoUsd,
      startsAtMs === undefined ? null : new Date(startsAtMs),
      expiresAtMs === null ? null : new Date(expiresAtMs),
      new Date(nowMs),
    ],
  });
  return id;
}

/** What a request with an id is about, to tell a repeat from another request with the same id. */
type RequestedMovement = {
  requestId: string;
  type: TransactionType;
  /** Negative for what is taken; 0 accepts the amount of the first request. */
  amountNanoUsd: bigint;
  description: string;
  /** The reversed charge, for a refund. */
  reversesId?: string;
};

/**
 * The transaction posted by an earlier request with this id, and the lot it gave; null when there was none. IDEMPOTENCY_KEY_REUSED when
 * that request was about something else.
 */
export async function findRequest(
  sql: Sql,
  tenantId: string,
  { requestId, type, amountNanoUsd, description, reversesId }: RequestedMovement,
): Promise<{ transactionId: string; itemId: string | null } | null> {
  const { rows } = await sql.query<{
    id: string;
    type: TransactionType;
    amount_nano_usd: bigint;
    description: string;
    reverses_id: string | null;
    item_id: string | null;
  }>({
    text: `
      select id, type, description, reverses_id,
        -- A commitment moves no wallet.
        case type when 0 then (select sum(amount_nano_usd)::bigint from entries e
          where e.tenant_id = t.tenant_id and e.transaction_id = t.id and amount_nano_usd > 0)
        else amount_nano_usd end as amount_nano_usd,
        (select item_id from entries e where e.tenant_id = t.tenant_id and e.transaction_id = t.id
          and item_id is not null limit 1) as item_id
      from transactions t where tenant_id = $1 and request_id = $2`,
    values: [tenantId, requestId],
  });
  const [earlier] = rows;
  if (earlier === undefined) return null;
  const isSame =
    type === earlier.type &&
    (amountNanoUsd === 0n || amountNanoUsd === earlier.amount_nano_usd) &&
    description === earlier.description &&
    (reversesId ?? null) === earlier.reverses_id;
  if (!isSame) throw idempotencyKeyReused();
  return { transactionId: earlier.id, itemId: earlier.item_id };
}
