import pg from 'pg';
import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7 } from '#shared/ids.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { operator, person, service, startTestBilling } from '../../fixtures/test-billing.ts';
import { migrations } from './index.ts';

test('room that organizations held before the upgrade is held in its month afterwards', async () => {
  await using started = await startTestBilling();
  const { billing, database } = started;
  const { tenantId, userId } = person();
  const included = { monthlyCreditNanoUsd: 10n };
  await billing.putPlan({ plan: { code: 'prepaid', name: 'Prepaid', included } }, operator);
  await billing.assignPlan({ tenantId, planCode: 'prepaid' }, operator);
  const asked = { tenantId, userId, holderId: uuidv7(), costMaxNanoUsd: 4n };
  for (let count = 0; count < 2; count++) {
    await billing.lease({ ...asked, demands: [{ kind: BudgetKind.ORGANIZATION, leaseId: uuidv7() }] }, service);
  }
  const owning = new pg.Client({ connectionString: database.url });
  await owning.connect();
  const held = async () => (await owning.query('select period_start::text, held_nano_usd from billing.spend')).rows;
  const before = await held();
  expect(before).toMatchObject([{ held_nano_usd: '8' }]);

  await owning.query('truncate billing.spend');
  await owning.query('alter table billing.accounts add column held_nano_usd bigint not null default 8');
  await owning.query("delete from billing.schema_migrations where name = '0014-hold-by-month'");
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  expect(await held()).toEqual(before);
  await owning.end();
});
