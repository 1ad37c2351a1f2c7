import type { MessageInitShape } from '@bufbuild/protobuf';
import pLimit from 'p-limit';
import {
  type RedeemCouponRequest,
  RedeemCouponRequestSchema,
  type RedeemCouponResponseSchema,
} from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { onceNamed } from '#shared/idempotency.ts';
import { usdJson } from '#shared/money.ts';
import { type Caller, Role, sessionCaller } from '#shared/rpc/caller.ts';
import { LotEntity } from '../db/entities.ts';
import { lotMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { canonicalCode, codeDigest } from '../domain/coupon-code.ts';
import { dayMs } from '../domain/period.ts';
import { lockAccount } from '../ledger/accounts.ts';
import { giveCredit } from '../ledger/credit.ts';
import { readFunds } from '../ledger/funds.ts';
import { giveDueCredit } from '../ledger/monthly-credit.ts';

/** How many codes a user may try in an hour: a random code has 130 bits, so guessing is hopeless anyway. */
const attemptsPerHourMax = 20;
const hourMs = 3_600_000;

/** Hundreds may redeem one code in the same second: they wait for its row, and each would hold a connection, which everybody needs. */
const redemptionsAtOnce = 3;

export const redeemCoupon = (deps: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'redeemCoupon'> => {
  const turns = pLimit(redemptionsAtOnce);
  return (request, context) => {
    const caller = sessionCaller(context, Role.MEMBER);
    return deps.database.changeTurns.run(caller.tenantId, context.signal, () =>
      turns(() => {
        context.signal.throwIfAborted();
        return redeem(deps, caller, request);
      }),
    );
  };
};

async function redeem(
  { database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>,
  caller: Caller,
  request: RedeemCouponRequest,
): Promise<MessageInitShape<typeof RedeemCouponResponseSchema>> {
  const { tenantId } = caller;
  // Counted whatever the outcome, hence in a transaction of its own.
  await countAttempt(database.pool, caller, await databaseNow(database.pool));
  const kept = await sqlTransaction(database, async (sql) => {
    const nowMs = await databaseNow(sql);
    const call = { caller, key: request.idempotencyKey, request, requestSchema: RedeemCouponRequestSchema, nowMs };
    return onceNamed(sql, call, async () => {
      const coupon = await findCoupon(sql, canonicalCode(request.code), tenantId);
      const account = await lockAccount(sql, tenantId);
      requireRedeemable(coupon, nowMs);
      // Otherwise the balance would lack what the next look at the wallet adds.
      await giveDueCredit(sql, [account], nowMs);
      const expiresAtMs = coupon.credit_lifetime_days === 0 ? null : nowMs + coupon.credit_lifetime_days * dayMs;
      const { lotId } = await giveCredit(
        sql,
        account,
        {
          source: LotSource.COUPON,
          amountNanoUsd: coupon.amount_nano_usd,
          expiresAtMs,
          description: `Coupon ${coupon.code_preview}`,
          requestId: null,
        },
        nowMs,
      );
      await recordAuditEvent(sql, {
        caller,
        occurredAtMs: nowMs,
        tenantId,
        type: 'coupon_redeemed',
        target: { type: 'coupon', id: coupon.id },
        after: { code: coupon.code_preview, amount_usd: usdJson(coupon.amount_nano_usd) },
      });
      // The balance that the wallet shows: the account's own still includes credit that has expired but is not written off yet.
      const funds = (await readFunds(sql, [tenantId], { nowMs })).get(tenantId)!;
      await markRedeemed(sql, coupon.id, caller, lotId, nowMs);
      return `${lotId} ${funds.creditNanoUsd - account.balances.overdraft}`;
    });
  });
  const [lotId, balance] = kept.split(' ');
  const lot = await database.em().findOneOrFail(LotEntity, { tenantId, id: lotId! });
  return { lot: lotMessage(lot), balanceNanoUsd: BigInt(balance!) };
}

type FoundCoupon = {
  id: string;
  code_preview: string;
  amount_nano_usd: bigint;
  redemptions_max: bigint;
  redemptions: bigint;
  redeem_until: Date | null;
  credit_lifetime_days: number;
  disabled_at: Date | null;
  /** Whether the organization has redeemed it. */
  is_redeemed: boolean;
};

/** What was tried in earlier hours is forgotten. */
async function countAttempt(sql: Sql, { tenantId, userId }: Caller, nowMs: number): Promise<void> {
  const hour = Math.floor(nowMs / hourMs) * hourMs;
  const { rows } = await sql.query<{ attempts: number }>({
    text: `
      with forgotten as (delete from coupon_attempts where tenant_id = $1 and user_id = $2 and hour < $3)
      insert into coupon_attempts as kept (tenant_id, user_id, hour, attempts) values ($1, $2, $3, 1)
      on conflict (tenant_id, user_id, hour) do update set attempts = kept.attempts + 1
      returning attempts`,
    values: [tenantId, userId, new Date(hour)],
  });
  if (rows[0]!.attempts <= attemptsPerHourMax) return;
  throw gatewayError(ErrorReason.RATE_LIMITED, 'Too many coupon codes were tried. Try again later.', {
    retryAfterMs: hour + hourMs - nowMs,
  });
}

async function findCoupon(sql: Sql, canonical: string, tenantId: string): Promise<FoundCoupon> {
  const { rows } = await sql.query<FoundCoupon>({
    text: `
      select *, exists (select from coupon_redemptions where coupon_id = coupons.id and tenant_id = $2) as is_redeemed
      from coupons where code_digest = $1`,
    values: [codeDigest(canonical), tenantId],
  });
  if (rows[0] === undefined) throw invalidCode();
  return rows[0];
}

function requireRedeemable(coupon: FoundCoupon, nowMs: number): void {
  if (coupon.is_redeemed) throw redeemedAlready();
  const isOver = coupon.redeem_until !== null && coupon.redeem_until.getTime() <= nowMs;
  if (isOver || coupon.disabled_at !== null || coupon.redemptions >= coupon.redemptions_max) throw invalidCode();
}

/** Comes last, since it locks the coupon, for which those of other organizations wait, and it may turn out to be used up meanwhile. */
async function markRedeemed(sql: Sql, couponId: string, caller: Caller, lotId: string, nowMs: number): Promise<void> {
  const { rowCount } = await sql.query({
    text: `
      insert into coupon_redemptions (coupon_id, tenant_id, user_id, lot_id, redeemed_at) values ($1, $2, $3, $4, $5)
      on conflict (coupon_id, tenant_id) do nothing`,
    values: [couponId, caller.tenantId, caller.userId, lotId, new Date(nowMs)],
  });
  if (rowCount === 0) throw redeemedAlready();
  const { rowCount: counted } = await sql.query({
    text: `
      update coupons set redemptions = redemptions + 1
      where id = $1 and redemptions < redemptions_max and disabled_at is null`,
    values: [couponId],
  });
  if (counted === 0) throw invalidCode();
}

/** Unknown, used up, expired and disabled codes look the same, so that nobody learns which codes exist. */
const invalidCode = (): GatewayError =>
  gatewayError(ErrorReason.INVALID_CODE, 'This coupon code is unknown, already used or expired.', { param: 'code' });

/** To the organization that did, the code is no secret. */
const redeemedAlready = (): GatewayError =>
  gatewayError(ErrorReason.INVALID_CODE, 'Your organization has already redeemed this coupon.', { param: 'code' });
