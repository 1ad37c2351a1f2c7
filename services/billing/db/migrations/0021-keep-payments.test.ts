import pg from 'pg';
import { expect, test } from 'vitest';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7 } from '#shared/ids.ts';
import { rowsOf } from '../../../../test/support/postgres.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { undoKeepPayments } from '../../fixtures/before-payments.ts';
import {
  as,
  paymentSignature,
  person,
  service,
  startTestBilling,
  toNextMonth,
  usageEvent,
} from '../../fixtures/test-billing.ts';
import { finalizeInvoices } from '../../workers/finalize-invoices.ts';
import { migrations } from './index.ts';

const hourMs = 3_600_000;

test('payments booked before they had rows keep what they bought: credit, an invoice, or an invoice and credit for the excess', async () => {
  await using started = await startTestBilling();
  const { billing, database, deps } = started;
  const owner = person();
  const { tenantId } = owner;
  const pay = async (id: string, cents: number, invoiceId?: string) => {
    const metadata = { tenant_id: tenantId, ...(invoiceId !== undefined && { invoice_id: invoiceId }) };
    const data = { object: { id, currency: 'usd', amount_received: cents, metadata } };
    const payload = JSON.stringify({ id: `evt_${id}`, type: 'payment_intent.succeeded', data });
    const seconds = Math.floor((await deps.databaseNow(deps.database.pool)) / 1_000);
    const event = { provider: 'stripe', payload: Buffer.from(payload), signature: paymentSignature(payload, seconds) };
    await billing.receivePaymentEvent(event, service);
  };
  const invoice = async () => {
    await billing.charge(
      {
        events: [
          usageEvent({ tenantId, costNanoUsd: 2_000_000_000n, atMs: await deps.databaseNow(deps.database.pool) }),
        ],
      },
      service,
    );
    await toNextMonth(started, 2 * hourMs);
    await finalizeInvoices(deps);
    return (await billing.listInvoices({}, as(owner))).invoices[0]!.id;
  };
  await pay('pi_invoice', 200, await invoice());
  await pay('pi_excess', 250, await invoice());
  await pay('pi_credit', 700);
  const payments = () => rowsOf(database.url, 'select * from billing.payments order by booked_at');
  const kept = await payments();
  expect(kept.map(({ payment_id, amount_nano_usd, lot_id }) => [payment_id, amount_nano_usd, lot_id !== null])).toEqual(
    [
      ['pi_invoice', '2000000000', false],
      ['pi_excess', '2500000000', true],
      ['pi_credit', '7000000000', true],
    ],
  );

  const owning = new pg.Client({ connectionString: database.url });
  await owning.connect();
  await undoKeepPayments(owning);
  // An event of no interest has booked nothing.
  await owning.query(
    `insert into billing.payment_events (provider, event_id, received_at) values ('stripe', '${uuidv7()}', now())`,
  );
  await owning.end();
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  expect(await payments()).toEqual(kept);
});
