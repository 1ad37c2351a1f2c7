import { expect, test } from 'vitest';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { as, operator, person, service, startTestBilling, usageEvent } from '../fixtures/test-billing.ts';

/** Tries again, as callers are told to when a hundred at once get no connection in time. Repeats have the same ids. */
async function untilServed<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!hasReason(error, ErrorReason.OVERLOADED)) throw error;
    }
  }
}

test('money is neither created nor lost while charges, grants, adjustments and refunds run concurrently', async () => {
  await using first = await startTestBilling();
  await using second = await startTestBilling(first.database);
  const processes = [first.billing, second.billing];
  const owners = Array.from({ length: 4 }, () => person());
  let granted = 0n;
  let charged = 0n;
  let taken = 0n;
  const money = async (index: number): Promise<void> => {
    const billing = processes[index % 2]!;
    const { tenantId } = owners[index % owners.length]!;
    const amountNanoUsd = BigInt(1_000 + index);
    const requestId = uuidv7();
    switch (index % 5) {
      case 0:
        {
          const source = index % 2 === 0 ? LotSource.PURCHASE : LotSource.PROMOTION;
          await untilServed(() => billing.grantCredit({ requestId, tenantId, source, amountNanoUsd }, operator));
        }
        granted += amountNanoUsd;
        return;
      case 1:
        try {
          const request = { requestId, tenantId, amountNanoUsd: -amountNanoUsd, description: 'taken' };
          await untilServed(() => billing.postAdjustment(request, operator));
          taken += amountNanoUsd;
        } catch (error) {
          if (!hasReason(error, ErrorReason.CONFLICT)) throw error;
        }
        return;
      default: {
        // Batches that overlap in organizations, in different orders.
        const events = owners.map((owner) => usageEvent({ tenantId: owner.tenantId, costNanoUsd: amountNanoUsd }));
        if (index % 2 === 1) events.reverse();
        await untilServed(() => billing.charge({ events }, service));
        charged += amountNanoUsd * BigInt(owners.length);
      }
    }
  };
  await Promise.all(Array.from({ length: 150 }, (_, index) => money(index)));

  let wallet = 0n;
  let payg = 0n;
  for (const owner of owners) {
    wallet += (await first.billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd;
    payg += (await first.billing.getPaygSpendCap({}, as(owner))).budget!.spentNanoUsd;
  }
  expect(granted + payg - taken - charged).toBe(wallet);
  expect((await first.billing.verifyLedger({}, service)).faults).toEqual([]);
});

test('of 100 who redeem one coupon at once exactly one succeeds, and so does one of 100 tries of a single organization', async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const redeem = async (code: string, caller: ReturnType<typeof person>): Promise<string> => {
    try {
      await untilServed(() => billing.redeemCoupon({ code }, as(caller)));
      return 'redeemed';
    } catch (error) {
      return hasReason(error, ErrorReason.INVALID_CODE) ? 'refused' : String(error);
    }
  };
  const once = (await billing.createCoupon({ amountNanoUsd: 7n }, operator)).coupon!;
  const everybody = await Promise.all(Array.from({ length: 100 }, () => redeem(once.code, person())));
  expect(everybody.toSorted()).toEqual(['redeemed', ...Array.from({ length: 99 }, () => 'refused')]);

  const many = (await billing.createCoupon({ amountNanoUsd: 7n, redemptionsMax: 1_000 }, operator)).coupon!;
  const { tenantId } = person();
  const colleagues = await Promise.all(Array.from({ length: 100 }, () => redeem(many.code, person({ tenantId }))));
  expect(colleagues.filter((result) => result === 'redeemed')).toHaveLength(1);
  expect((await billing.getWallet({}, as(person({ tenantId })))).wallet!.balanceNanoUsd).toBe(7n);
  const { coupons } = await billing.listCoupons({}, operator);
  expect(coupons.map(({ redemptions }) => redemptions)).toEqual([1, 1]);
  expect((await billing.verifyLedger({}, service)).faults).toEqual([]);
});
