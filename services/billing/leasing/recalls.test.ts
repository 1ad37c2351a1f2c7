import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { startStopwatch } from '../../../test/support/stopwatch.ts';
import { createRecalls } from './recalls.ts';

test('a request waits for slices no longer than they may take to be settled, though the database is slow', async () => {
  const tenantId = uuidv7();
  const budget = { tenantId, kind: BudgetKind.ORGANIZATION, subjectId: tenantId, periodStart: '2026-11-01' };
  using watch = startStopwatch();
  await createRecalls().wait(budget, 1, () => delay(250, 0));
  expect(watch.ms).toBeLessThan(2_500);
});
