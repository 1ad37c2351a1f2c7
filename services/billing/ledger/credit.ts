import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { plainArray, type Sql } from '#shared/db/sql.ts';
import { idempotencyKeyReused } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import { smaller } from '../domain/amounts.ts';
import { accountOfLot } from '../domain/draw-order.ts';
import { type Posting, postingDefaults, transfer } from '../domain/ledger.ts';
import { type Account, requireRoomInAccount } from './accounts.ts';
import { post } from './post.ts';

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
  /** Where it comes from, if not from the usual account of its source. */
  from?: 'revenue';
};

/** The usual movement for credit from a source. */
export const typeOfCredit = (source: LotSource): TransactionType =>
  source === LotSource.PURCHASE ? TransactionType.PURCHASE : TransactionType.GRANT;

/** By which transaction credit was given, and the lot that it is in. */
type Given = { transactionId: string; lotId: string };

/** Gives credit to a locked organization and posts it; what it owes is paid first. CONFLICT when the account cannot hold more. */
export async function giveCredit(sql: Sql, account: Account, credit: NewCredit, nowMs: number): Promise<Given> {
  requireRoomInAccount(account, credit.amountNanoUsd);
  const lotId = await addToLot(sql, account, credit);
  const [given] = await postGifts(
    sql,
    lotId === null ? await openLots(sql, [{ account, credit }], nowMs) : [{ account, credit, lotId }],
    nowMs,
  );
  return given!;
}

/** How money that came in was booked, and the credit that it bought; null: none. */
export type Booked = { transactionId: string; lotId: string | null };

/** Gives a locked organization credit for money that came in. */
export const buyCredit = (
  sql: Sql,
  account: Account,
  bought: { amountNanoUsd: bigint; description: string },
  nowMs: number,
): Promise<Booked> =>
  giveCredit(sql, account, { ...bought, source: LotSource.PURCHASE, expiresAtMs: null, requestId: null }, nowMs);

/** Credit for a locked organization whose account has room for it. */
export type Gift = { account: Account; credit: NewCredit };

/** Gives each of some organizations a lot of its own, all in the same statements. */
export async function giveLots(sql: Sql, gifts: readonly Gift[], nowMs: number): Promise<void> {
  if (gifts.length > 0) await postGifts(sql, await openLots(sql, gifts, nowMs), nowMs);
}

type GiftInLot = Gift & { lotId: string };

async function postGifts(sql: Sql, gifts: readonly GiftInLot[], nowMs: number): Promise<Given[]> {
  const ids = await post(
    sql,
    gifts.map((gift) => ({ account: gift.account, postings: [giftPosting(gift)] })),
    nowMs,
  );
  return gifts.map(({ lotId }, index) => ({ transactionId: ids[index]!, lotId }));
}

/** How much of a gift pays what the organization owes. */
const paidOff = ({ account, credit }: Gift): bigint => smaller(account.balances.overdraft, credit.amountNanoUsd);

function giftPosting(gift: GiftInLot): Posting {
  const { credit, lotId } = gift;
  const { source, amountNanoUsd, description, requestId } = credit;
  const paidNanoUsd = paidOff(gift);
  const from = credit.from ?? (source === LotSource.PURCHASE ? 'funding' : 'grantedCredit');
  return {
    ...postingDefaults,
    type: credit.type ?? typeOfCredit(source),
    amountNanoUsd,
    description,
    requestId,
    reversesId: credit.reversesId ?? null,
    entries: [
      ...transfer(amountNanoUsd, from, accountOfLot(source), { credited: lotId }),
      ...(paidNanoUsd > 0n ? transfer(paidNanoUsd, accountOfLot(source), 'overdraft', { debited: lotId }) : []),
    ],
  };
}

/**
 * Adds refunds and corrections, which never expire, to the lot of earlier ones, if anything is left of it: there may be one for each call of
 * an outage, and every charge reads each lot of a wallet. Null when a lot has to be opened.
 */
async function addToLot(sql: Sql, account: Account, credit: NewCredit): Promise<string | null> {
  const { source, amountNanoUsd } = credit;
  if (source !== LotSource.ADJUSTMENT) return null;
  const { rows } = await sql.query<{ id: string }>({
    text: `
      update lots set granted_nano_usd = granted_nano_usd + $2, remaining_nano_usd = remaining_nano_usd + $2 - $3
      where tenant_id = $1 and id = (
        select id from lots
        where tenant_id = $1 and source = ${LotSource.ADJUSTMENT} and remaining_nano_usd > 0
        order by id desc limit 1)
      returning id`,
    values: [account.tenantId, amountNanoUsd, paidOff({ account, credit })],
  });
  return rows[0]?.id ?? null;
}

async function openLots(sql: Sql, gifts: readonly Gift[], nowMs: number): Promise<GiftInLot[]> {
  const opened = gifts.map((gift) => ({ ...gift, lotId: uuidv7() }));
  const isoOrNull = (ms: number | null | undefined) => (ms == null ? null : new Date(ms).toISOString());
  await sql.query({
    name: 'open-lots',
    text: `
      insert into lots (tenant_id, id, source, granted_nano_usd, remaining_nano_usd, starts_at, expires_at, created_at)
      select tenant_id, id, source, amount, amount - paid, starts_at, expires_at, $8
      from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::bigint[], $5::bigint[], $6::timestamptz[], $7::timestamptz[])
        as opened (tenant_id, id, source, amount, paid, starts_at, expires_at)`,
    values: [
      plainArray(opened.map(({ account }) => account.tenantId)),
      plainArray(opened.map(({ lotId }) => lotId)),
      plainArray(opened.map(({ credit }) => credit.source)),
      plainArray(opened.map(({ credit }) => credit.amountNanoUsd)),
      plainArray(opened.map(paidOff)),
      plainArray(opened.map(({ credit }) => isoOrNull(credit.startsAtMs))),
      plainArray(opened.map(({ credit }) => isoOrNull(credit.expiresAtMs))),
      new Date(nowMs),
    ],
  });
  return opened;
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
        case type when ${TransactionType.UNSPECIFIED} then (select sum(amount_nano_usd)::bigint from entries e
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
