import pg from 'pg';
import { expect, test } from 'vitest';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7 } from '#shared/ids.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { operator, paymentSignature, service, startTestBilling } from '../../fixtures/test-billing.ts';
import { migrations } from './index.ts';

test('a payment booked before payments had ids is not booked again through its session', async () => {
  await using started = await startTestBilling();
  const { database } = started;
  const tenantId = uuidv7();
  const tell = async (type: string, fields: object) => {
    const object = { currency: 'usd', metadata: { tenant_id: tenantId }, ...fields };
    const payload = JSON.stringify({ id: `evt_${uuidv7()}`, type, data: { object } });
    const event = { provider: 'stripe', payload: Buffer.from(payload), signature: paymentSignature(payload) };
    return (await started.billing.receivePaymentEvent(event, service)).duplicate;
  };
  const intent = (id: string) => tell('payment_intent.succeeded', { id, amount_received: 700 });
  const session = (id: string, paymentIntent: string | null) =>
    tell('checkout.session.completed', {
      id,
      payment_intent: paymentIntent,
      payment_status: 'paid',
      amount_total: 700,
    });
  const owner = new pg.Client({ connectionString: database.url });
  await owner.connect();
  const forget = () => owner.query('update billing.payment_events set payment_id = null');

  expect(await intent('pi_once')).toBe(false);
  expect(await session('cs_alone', null)).toBe(false);
  expect(await intent('pi_twice')).toBe(false);
  await forget();
  expect(await session('cs_of_twice', 'pi_twice')).toBe(false);
  await forget();
  expect(await intent('pi_twice')).toBe(false);
  await forget();
  // Booked by the version with 0006, which knew its id, after an earlier one that did not.
  expect(await intent('pi_both')).toBe(false);
  await forget();
  expect(await intent('pi_both')).toBe(false);

  await owner.query("delete from billing.schema_migrations where name = '0007-know-earlier-payments'");
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  expect(await session('cs_of_once', 'pi_once')).toBe(true);
  expect(await session('cs_again', 'pi_twice')).toBe(true);
  expect(await session('cs_of_both', 'pi_both')).toBe(true);
  expect(await session('cs_new', 'pi_new')).toBe(false);
  const { wallet } = await started.billing.getAccount({ tenantId }, operator);
  expect(wallet!.balanceNanoUsd).toBe(8n * 7_000_000_000n);
  expect((await started.billing.verifyLedger({}, service)).faults).toEqual([]);
  await owner.end();
});
