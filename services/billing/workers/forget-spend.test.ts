import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { rowsOf } from '../../../test/support/postgres.ts';
import { startTestBilling } from '../fixtures/test-billing.ts';
import { forgetSpend } from './forget-spend.ts';

test('what keys and users spent on days long over is forgotten, however much; what is held, of late, or of an organization stays', async () => {
  await using started = await startTestBilling();
  const { url } = started.database;
  const tenantId = uuidv7();
  const spend = (kind: BudgetKind, daysAgo: number, held = 0, count = 1) =>
    rowsOf(
      url,
      `insert into billing.spend select $1, $2, gen_random_uuid(), (now() at time zone 'UTC')::date - $3::int, 5, $4
        from generate_series(1, $5)`,
      [tenantId, kind, daysAgo, held, count],
    );
  await spend(BudgetKind.API_KEY, 36, 0, 1_500);
  await spend(BudgetKind.USER, 400, 0, 501);
  await spend(BudgetKind.API_KEY, 36, 7);
  await spend(BudgetKind.USER, 35);
  await spend(BudgetKind.ORGANIZATION, 400);

  expect(await forgetSpend(started.deps)).toBe(2_001);
  const kept = await rowsOf(url, `select kind, held_nano_usd::int as held from billing.spend order by kind, held`);
  expect(kept).toEqual([
    { kind: BudgetKind.API_KEY, held: 7 },
    { kind: BudgetKind.USER, held: 0 },
    { kind: BudgetKind.ORGANIZATION, held: 0 },
  ]);
});
