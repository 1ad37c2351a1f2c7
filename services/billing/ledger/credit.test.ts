import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { as, operator, person, service, sound, startTestBilling, usageEvent } from '../fixtures/test-billing.ts';

const dayMs = 86_400_000;

test('a movement of money is known by its request id forever, and another one under it is refused, even of the same amount', async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const owner = person();
  const { tenantId } = owner;
  const events = [usageEvent({ tenantId, costNanoUsd: 5n }), usageEvent({ tenantId, costNanoUsd: 5n })];
  await billing.charge({ events }, service);
  const { transactions: charges } = await billing.listTransactions({ type: TransactionType.USAGE }, as(owner));

  const movement = (requestId: string) => ({ requestId, tenantId, amountNanoUsd: 5n, description: 'agreed' });
  const newYear = (year: number) => timestampFromMs(Date.UTC(year, 0));
  const grant = (source: LotSource, expiresAt?: Timestamp) => async (requestId: string) =>
    (await billing.grantCredit({ ...movement(requestId), source, expiresAt }, operator)).lot!.id;
  const adjust = (amountNanoUsd: bigint) => async (requestId: string) =>
    (await billing.postAdjustment({ ...movement(requestId), amountNanoUsd }, operator)).transaction!.id;
  const refund = (charge: number, amountNanoUsd: bigint) => async (requestId: string) => {
    const refunded = { ...movement(requestId), transactionId: charges[charge]!.id, amountNanoUsd };
    return (await billing.refundTransaction(refunded, operator)).transaction!.id;
  };
  const commit =
    (amountNanoUsd: bigint, year = 2150) =>
    async (requestId: string) => {
      const agreed = { amountNanoUsd, periodStart: newYear(year), periodEnd: newYear(year + 1) };
      return (await billing.createCommitment({ requestId, tenantId, ...agreed }, operator)).commitment!.id;
    };
  const pairs = [
    { one: grant(LotSource.PROMOTION), others: [grant(LotSource.PURCHASE), adjust(5n), refund(0, 5n), commit(5n)] },
    {
      one: grant(LotSource.PROMOTION, newYear(2150)),
      others: [LotSource.PROMOTION, LotSource.PURCHASE].map((source) => grant(source)),
    },
    { one: grant(LotSource.PURCHASE), others: [grant(LotSource.PURCHASE, newYear(2150))] },
    { one: adjust(5n), others: [adjust(-5n), grant(LotSource.PROMOTION)] },
    { one: adjust(-5n), others: [adjust(5n)] },
    { one: refund(0, 0n), others: [refund(1, 0n), refund(0, 4n), adjust(5n)] },
    { one: refund(1, 2n), others: [refund(1, 0n), refund(1, 3n)] },
    { one: commit(5n), others: [commit(6n), commit(5n, 2151), adjust(5n)] },
  ].map((pair) => ({ ...pair, requestId: uuidv7() }));

  const made: string[] = [];
  for (const { one, requestId } of pairs) made.push(await one(requestId));
  await billing.endCommitment({ tenantId, commitmentId: made.at(-1)! }, operator);
  const before = await billing.getWallet({}, as(owner));
  // Other Idempotency-Keys have been forgotten by then.
  started.travel(2 * dayMs);
  for (const [index, { one, others, requestId }] of pairs.entries()) {
    for (const other of others) {
      await expect(other(requestId)).rejects.toMatchObject({ reason: ErrorReason.IDEMPOTENCY_KEY_REUSED });
    }
    expect(await one(requestId)).toBe(made[index]);
  }
  expect(await billing.getWallet({}, as(owner))).toEqual(before);
  await sound(started);
});

test('refunds and corrections are one lot of the wallet as long as anything is left of it: charges and the wallet read each lot', async () => {
  await using started = await startTestBilling();
  const { billing } = started;
  const owner = person();
  const { tenantId } = owner;
  const charge = (costNanoUsd: bigint) => billing.charge({ events: [usageEvent({ tenantId, costNanoUsd })] }, service);
  const listed = async (type: TransactionType) =>
    (await billing.listTransactions({ type }, as(owner))).transactions.map(({ id, amountNanoUsd, reversesId }) => ({
      id,
      amountNanoUsd,
      reversesId,
    }));
  const refund = (transactionId: string, requestId: string) =>
    billing.refundTransaction({ tenantId, transactionId, requestId, description: 'Outage' }, operator);
  const lots = async () =>
    (await billing.getWallet({}, as(owner))).wallet!.lots.map(
      ({ source, grantedNanoUsd, remainingNanoUsd, expiresAt }) => [
        source,
        grantedNanoUsd,
        remainingNanoUsd,
        expiresAt,
      ],
    );
  for (const costNanoUsd of [1n, 2n, 3n, 4n]) await charge(costNanoUsd);
  const charges = (await listed(TransactionType.USAGE)).toReversed();

  const requestIds = charges.map(() => uuidv7());
  const made: string[] = [];
  for (const [index, { id }] of charges.entries()) made.push((await refund(id, requestIds[index]!)).transaction!.id);
  const adjustment = { tenantId, amountNanoUsd: 5n, description: 'Agreed', requestId: uuidv7() };
  const purchase = { ...adjustment, source: LotSource.PURCHASE, requestId: uuidv7() };
  await billing.grantCredit(purchase, operator);
  await billing.postAdjustment({ ...adjustment, tenantId: person().tenantId, requestId: uuidv7() }, operator);
  await billing.postAdjustment(adjustment, operator);
  for (const [index, { id }] of charges.entries()) {
    expect((await refund(id, requestIds[index]!)).transaction!.id).toBe(made[index]);
  }
  expect(await lots()).toEqual([
    [LotSource.ADJUSTMENT, 15n, 15n, undefined],
    [LotSource.PURCHASE, 5n, 5n, undefined],
  ]);
  expect((await listed(TransactionType.REFUND)).toReversed()).toEqual(
    charges.map(({ id, amountNanoUsd }, index) => ({ id: made[index], amountNanoUsd: -amountNanoUsd, reversesId: id })),
  );

  await charge(16n);
  await refund((await listed(TransactionType.USAGE))[0]!.id, uuidv7());
  expect(await lots()).toEqual([
    [LotSource.PURCHASE, 5n, 4n, undefined],
    [LotSource.ADJUSTMENT, 16n, 16n, undefined],
  ]);
  await sound(started);
});
