import pg from 'pg';
import { expect, test } from 'vitest';
import { migrateAll } from '#shared/db/migrate.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { as, operator, person, startTestBilling } from '../../fixtures/test-billing.ts';
import { grantMonthlyCredit } from '../../workers/grant-monthly-credit.ts';
import { migrations } from './index.ts';

test('whoever already got this month’s plan credit does not get it again, and whoever got less gets the rest', async () => {
  await using started = await startTestBilling();
  const { billing, deps, database } = started;
  const put = (monthlyCreditNanoUsd: bigint) =>
    billing.putPlan(
      { plan: { code: 'team', name: 'Team', paygEnabled: true, included: { monthlyCreditNanoUsd } } },
      operator,
    );
  const given = async () => {
    const owner = person();
    const { tenantId } = owner;
    await billing.assignPlan({ tenantId, planCode: 'team' }, operator);
    const balance = async () => (await billing.getWallet({}, as(owner))).wallet!.balanceNanoUsd;
    await balance();
    return { tenantId, balance };
  };
  await put(2n);
  const less = await given();
  await put(5n);
  const whole = await given();

  const owning = new pg.Client({ connectionString: database.url });
  await owning.connect();
  await owning.query('alter table billing.credit_months drop column included_nano_usd');
  await owning.query("delete from billing.schema_migrations where name = '0010-note-included-credit'");
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  const { rows } = await owning.query('select tenant_id, included_nano_usd as included from billing.credit_months');
  expect(new Map(rows.map(({ tenant_id, included }) => [tenant_id, included]))).toEqual(
    new Map([
      [less.tenantId, null],
      [whole.tenantId, '5'],
    ]),
  );
  expect(await grantMonthlyCredit(deps)).toBe(1);
  expect([await less.balance(), await whole.balance()]).toEqual([5n, 5n]);
  await owning.end();
});
