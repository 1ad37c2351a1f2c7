import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { onDatabase } from '../../../test/support/people.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import {
  as,
  operator,
  person,
  service,
  startTestBilling,
  type TestBilling,
  usageEvent,
} from '../fixtures/test-billing.ts';

let started: TestBilling;

beforeAll(async () => {
  started = await startTestBilling();
  await started.billing.createCoupon({ code: 'FOR-ONE', amountNanoUsd: 1n }, operator);
});
afterAll(() => started?.close());

/** A lease of another organization, without which its calls would wait. */
function leaseForAnother() {
  const demands = [{ kind: BudgetKind.API_KEY, leaseId: uuidv7(), limitNanoUsd: 5n }];
  const caller = { tenantId: uuidv7(), userId: uuidv7(), apiKeyId: uuidv7() };
  const call = { holderId: uuidv7(), ...caller, costMaxNanoUsd: 1n, demands };
  return started.billing.lease(call, { ...service, timeoutMs: 10_000 });
}

/** Changes, and for each the lock that it waits for. */
const changes: { what: string; change(of: Caller): Promise<unknown>; lock: string }[] = [
  {
    what: 'personal limits',
    change: (of) => started.billing.setCostLimit({ limitNanoUsd: 1n }, as(of)),
    lock: `select pg_advisory_xact_lock(hashtextextended('cost limit of ' || $1 || ' ' || $2, 0))`,
  },
  {
    what: 'removals of personal limits',
    change: (of) => started.billing.deleteCostLimit({}, as(of)),
    lock: `select pg_advisory_xact_lock(hashtextextended('cost limit of ' || $1 || ' ' || $2, 0))`,
  },
  {
    what: 'PAYG caps',
    change: (of) => started.billing.setPaygSpendCap({ limitNanoUsd: 1n }, as(of)),
    lock: 'insert into billing.accounts (tenant_id) select $1::text::uuid where $2::text is not null',
  },
  {
    what: 'coupon codes',
    change: (of) => started.billing.redeemCoupon({ code: 'FOR-ONE' }, as(of)),
    lock: `insert into billing.coupon_attempts (tenant_id, user_id, hour, attempts)
      values ($1::text::uuid, $2::text::uuid, date_trunc('hour', now()), 1)`,
  },
];

test.each(changes)(
  'many $what sent at once wait for each other, and calls of other organizations wait for none of them',
  async ({ change, lock }) => {
    const owner = person();
    await onDatabase(started, async (client) => {
      await client.query('begin');
      await client.query(lock, [owner.tenantId, owner.userId]);
      const made = Promise.allSettled(Array.from({ length: 40 }, () => change(owner)));
      await leaseForAnother();
      await client.query('rollback');
      const overloaded = { status: 'rejected', reason: { reason: ErrorReason.OVERLOADED } };
      expect(await made).not.toContainEqual(expect.objectContaining(overloaded));
    });
  },
);

test('when many organizations redeem one code at once, each allowed redemption gives credit, and no call waits for them', async () => {
  await started.billing.createCoupon({ code: 'FOR-ALL', amountNanoUsd: 1n, redemptionsMax: 30 }, operator);
  await onDatabase(started, async (client) => {
    await client.query('begin');
    await client.query('select from billing.coupons for update');
    const redeemed = Promise.allSettled(
      Array.from({ length: 40 }, () => started.billing.redeemCoupon({ code: 'FOR-ALL' }, as(person()))),
    );
    await leaseForAnother();
    await client.query('rollback');
    const refusals = (await redeemed).flatMap((each) => (each.status === 'rejected' ? [each.reason.reason] : []));
    expect(refusals).toEqual(Array.from({ length: 10 }, () => ErrorReason.INVALID_CODE));
  });
});

test('many lists requested at once by one organization leave connections for the requests of all others', async () => {
  const [owner, another] = [as(person()), as(person())];
  await onDatabase(started, async (client) => {
    await client.query('begin');
    await client.query('lock table billing.transaction_counts in access exclusive mode');
    const lists = Promise.all(Array.from({ length: 40 }, () => started.billing.listTransactions({}, owner)));
    await started.billing.listInvoices({}, another);
    await client.query('rollback');
    expect(await lists).toHaveLength(40);
  });
});

test('while Auth is silent about the names for invoices of some organizations, lists of others are answered', async () => {
  const { billing, deps } = started;
  const busy = [person(), person()];
  const events = busy.map(({ tenantId }) => usageEvent({ tenantId, costNanoUsd: 1_000n }));
  await billing.charge({ events }, service);
  const silence = Promise.withResolvers<never>();
  using asked = vi.spyOn(deps.auth, 'getTenants').mockReturnValue(silence.promise);
  const drawn = Promise.all(
    [...busy, busy[0]!].map(async (of) => {
      const { invoices } = await billing.listInvoices({}, as(of));
      return billing.renderInvoicePdf({ invoiceId: invoices[0]!.id }, as(of));
    }),
  );
  await waitFor(() => asked.mock.calls.length === 3, { description: 'the names to be asked for' });
  await billing.listTransactions({}, { ...as(person()), timeoutMs: 2_000 });
  silence.resolve({ organizations: [] } as never);
  expect(await drawn).toHaveLength(3);
});
