import pg from 'pg';
import { expect, test } from 'vitest';
import { migrateAll } from '#shared/db/migrate.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { as, person, service, startTestBilling, usageEvent } from '../../fixtures/test-billing.ts';
import { migrations } from './index.ts';

test("lines from before the upgrade are of their invoice's month, and later charges of that month add to them", async () => {
  await using started = await startTestBilling();
  const { billing, database } = started;
  const owner = person();
  const charge = () =>
    billing.charge({ events: [usageEvent({ tenantId: owner.tenantId, costNanoUsd: 2_000n })] }, service);
  await charge();
  const owning = new pg.Client({ connectionString: database.url });
  await owning.connect();
  await owning.query('alter table billing.invoice_lines drop column usage_month');
  await owning.query(
    'alter table billing.invoice_lines add primary key (tenant_id, month, model, unit, unit_price_nano_usd)',
  );
  await owning.query("delete from billing.schema_migrations where name = '0016-know-month-of-usage'");
  await owning.end();
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  await charge();
  const { id } = (await billing.listInvoices({}, as(owner))).invoices[0]!;
  const { lineItems } = (await billing.getInvoice({ invoiceId: id }, as(owner))).invoice!;
  expect(lineItems).toMatchObject([{ description: 'test/model: input tokens', line: { amountNanoUsd: 4_000n } }]);
});
