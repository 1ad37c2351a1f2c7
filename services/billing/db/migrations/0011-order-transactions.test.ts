import pg from 'pg';
import { expect, test } from 'vitest';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7 } from '#shared/ids.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { as, operator, person, sound, startTestBilling } from '../../fixtures/test-billing.ts';
import { migrations } from './index.ts';

test('new postings come after earlier ones by a process whose clock was ahead; the order is not checked before', async () => {
  await using started = await startTestBilling();
  const { billing, database } = started;
  const [owner, newcomer] = [person(), person()];
  const grant = ({ tenantId }: { tenantId: string }, amountNanoUsd: bigint) =>
    billing.grantCredit(
      { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd, description: '' },
      operator,
    );
  for (const amount of [1n, 2n, 4n]) await grant(owner, amount);

  const owning = new pg.Client({ connectionString: database.url });
  await owning.connect();
  // The second of them was posted under a clock in another year, and got an id of that time.
  await owning.query(`
    set search_path = billing;
    begin;
    set local session_replication_role = replica;
    update entries set transaction_id = overlay(transaction_id::text placing 'fe' from 1 for 2)::uuid
      where transaction_id in (select id from transactions where amount_nano_usd = 2);
    update transactions set id = overlay(id::text placing 'fe' from 1 for 2)::uuid where amount_nano_usd = 2;
    alter table accounts drop column last_transaction_id, drop column unordered_until;
    delete from schema_migrations where name = '0011-order-transactions';
    commit`);
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  await sound(started);

  for (const amount of [8n, 16n]) await grant(owner, amount);
  await grant(newcomer, 3n);
  const { transactions } = await billing.listTransactions({}, as(owner));
  expect(transactions.map(({ balanceAfterNanoUsd }) => balanceAfterNanoUsd)).toEqual([31n, 15n, 3n, 7n, 1n]);
  await sound(started);

  await owning.query('update transactions set balance_after_nano_usd = 30 where amount_nano_usd = 16');
  await owning.query('update transactions set balance_after_nano_usd = 4 where amount_nano_usd = 3');
  const { faults } = await billing.verifyLedger({}, operator);
  expect(faults.map(({ expectedNanoUsd, actualNanoUsd }) => [expectedNanoUsd, actualNanoUsd]).toSorted()).toEqual([
    [3n, 4n],
    [31n, 30n],
  ]);
  await owning.end();
});
