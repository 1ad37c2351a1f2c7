import pg from 'pg';
import { expect, test } from 'vitest';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7 } from '#shared/ids.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { undoKeepPayments } from '../../fixtures/before-payments.ts';
import { operator, paymentSignature, service, startTestBilling } from '../../fixtures/test-billing.ts';
import { migrations } from './index.ts';

test('a payment booked before payments had ids is not booked again through its session', async () => {
  await using started = await startTestBilling();
  const { billing, database } = started;
  const tenantId = uuidv7();
  const credit = { tenantId, source: LotSource.PURCHASE, amountNanoUsd: 7_000_000_000n };
  // What each event has booked, by what its transaction says of the event's object.
  for (const id of ['pi_once', 'cs_alone', 'pi_twice', 'cs_of_twice', 'pi_twice', 'pi_both', 'pi_both']) {
    await billing.grantCredit({ ...credit, requestId: uuidv7(), description: `Payment ${id}` }, operator);
  }
  const owner = new pg.Client({ connectionString: database.url });
  await owner.connect();
  await undoKeepPayments(owner);
  await owner.query(`
    insert into billing.payment_events
    select 'stripe', 'evt_' || id, posted_at, null, tenant_id, id from billing.transactions;
    -- Booked by the version with 0006, which knew its id, after an earlier one that did not.
    update billing.payment_events set payment_id = 'pi_both'
    where transaction_id = (select id from billing.transactions order by id desc limit 1);
    delete from billing.schema_migrations where name = '0007-know-earlier-payments'`);
  await owner.end();
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);

  const session = async (id: string, paymentIntent: string) => {
    const fields = { id, payment_intent: paymentIntent, payment_status: 'paid', currency: 'usd', amount_total: 700 };
    const data = { object: { ...fields, metadata: { tenant_id: tenantId } } };
    const payload = JSON.stringify({ id: `evt_${id}`, type: 'checkout.session.completed', data });
    const event = { provider: 'stripe', payload: Buffer.from(payload), signature: paymentSignature(payload) };
    return (await billing.receivePaymentEvent(event, service)).duplicate;
  };
  expect(await session('cs_of_once', 'pi_once')).toBe(true);
  expect(await session('cs_again', 'pi_twice')).toBe(true);
  expect(await session('cs_of_both', 'pi_both')).toBe(true);
  expect(await session('cs_new', 'pi_new')).toBe(false);
  const { wallet } = await billing.getAccount({ tenantId }, operator);
  expect(wallet!.balanceNanoUsd).toBe(8n * 7_000_000_000n);
  expect((await billing.verifyLedger({}, service)).faults).toEqual([]);
});
