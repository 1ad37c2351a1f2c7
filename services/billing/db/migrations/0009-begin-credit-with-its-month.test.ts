import pg from 'pg';
import { expect, test } from 'vitest';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7 } from '#shared/ids.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { as, operator, person, startTestBilling } from '../../fixtures/test-billing.ts';
import { migrations } from './index.ts';

test('credit given earlier by a plan begins with its month, and no other credit that ends with it does', async () => {
  await using started = await startTestBilling();
  const { billing, database } = started;
  const owner = person();
  const { tenantId } = owner;
  const credit = { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd: 1n };
  const included = { monthlyCreditNanoUsd: 5n };
  await billing.putPlan({ plan: { code: 'team', name: 'Team', paygEnabled: true, included } }, operator);
  await billing.assignPlan({ tenantId, planCode: 'team' }, operator);
  const { wallet } = await billing.getWallet({}, as(owner));
  const { expiresAt } = wallet!.lots[0]!;
  await billing.grantCredit({ ...credit, expiresAt: expiresAt! }, operator);

  const owning = new pg.Client({ connectionString: database.url });
  await owning.connect();
  await owning.query('alter table billing.lots drop column starts_at');
  await owning.query("delete from billing.schema_migrations where name = '0009-begin-credit-with-its-month'");
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  const { rows } = await owning.query(
    `select granted_nano_usd::int as granted, starts_at + interval '1 month' = expires_at as "isOfMonth" from billing.lots order by 1`,
  );
  expect(rows).toEqual([
    { granted: 1, isOfMonth: null },
    { granted: 5, isOfMonth: true },
  ]);
  await owning.end();
});
