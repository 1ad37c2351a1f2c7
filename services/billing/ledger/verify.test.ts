import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { LedgerFaultKind } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createTestDatabase, rowsOf } from '../../../test/support/postgres.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import {
  as,
  operator,
  person,
  service,
  sound,
  startTestBilling,
  toNextMonth,
  usageEvent,
} from '../fixtures/test-billing.ts';
import { createBillingMetrics } from '../metrics.ts';
import { finalizeInvoices } from '../workers/finalize-invoices.ts';
import { verifyLedger } from '../workers/verify-ledger.ts';
import { verifyLedgerOf } from './verify.ts';

test('the ledger is verified completely, even if a statement takes longer than requests may', async () => {
  const testDatabase = await createTestDatabase();
  const database = await openServiceDatabase({
    service: 'billing',
    connection: testDatabase.url,
    entities: [],
    logger: silentLogger,
    statementTimeoutMs: 50,
  });
  const rival = new pg.Client({ connectionString: testDatabase.url });
  await rival.connect();
  await rival.query('begin; lock table billing.entries in access exclusive mode');
  const verified = verifyLedgerOf(database, null);
  verified.catch(() => {});
  await waitFor(
    async () =>
      (
        await rival.query(
          `select from pg_locks where not granted and relation = 'billing.entries'::regclass
             and clock_timestamp() - waitstart > interval '200 ms'`,
        )
      ).rowCount,
    { description: 'a statement that has waited for long' },
  );
  await rival.query('commit');
  expect((await verified).faults).toEqual([]);
  await rival.end();
  await database.close();
  await testDatabase.drop();
});

test('one process verifies the ledger each day, and each hour while it is wrong, and all show on /metrics when it was and how many faults were found', async () => {
  await using first = await startTestBilling();
  const { billing, database, travel } = first;
  const verifiedAt = async () =>
    (await rowsOf(database.url, 'select verified_at from billing.ledger_verifications'))[0]!.verified_at as Date | null;
  const round = async (): Promise<string | undefined> => {
    const registry = new Registry();
    const metrics = createBillingMetrics(registry);
    await Promise.all([1, 2].map(() => verifyLedger({ ...first.deps, metrics })));
    return /^gateway_ledger_faults (\d+)$/m.exec(await registry.metrics())?.[1];
  };
  const hourMs = 3_600_000;
  expect(await round()).toBe('0');
  await billing.charge({ events: [usageEvent({ tenantId: uuidv7(), costNanoUsd: 9n })] }, service);
  await rowsOf(database.url, 'update billing.transactions set balance_after_nano_usd = 1');
  expect(await round()).toBe('0');
  travel(24 * hourMs);
  expect(await round()).toBe('1');
  const foundAt = await verifiedAt();
  await using later = await startTestBilling(database, { withWorkers: true });
  later.travel(24 * hourMs);
  const faults = async () => /^gateway_ledger_faults 1$/m.test(await later.registry.metrics());
  await waitFor(faults, { description: 'the fault on /metrics' });
  expect(await verifiedAt()).toEqual(foundAt);
  expect(await later.registry.metrics()).toContain(`gateway_ledger_verified_timestamp_seconds ${+foundAt! / 1000}\n`);
  await rowsOf(database.url, 'update billing.transactions set balance_after_nano_usd = 0');
  expect(await round()).toBe('1');
  travel(hourMs);
  expect(await round()).toBe('0');
  // Nor does it wait for a day by which the clock was ahead.
  travel(-24 * hourMs);
  const aheadAt = await verifiedAt();
  await round();
  expect(+aheadAt! - +(await verifiedAt())!).toBeGreaterThan(23 * hourMs);
});

test('while a verification runs, which may take hours, /metrics shows the one before it', async () => {
  await using started = await startTestBilling();
  const { database, deps } = started;
  await rowsOf(database.url, `update billing.ledger_verifications set verified_at = 'epoch', faults = 3`);
  const rival = new pg.Client({ connectionString: database.url });
  await rival.connect();
  await rival.query('begin; lock table billing.entries in access exclusive mode');
  const registry = new Registry();
  const verification = verifyLedger({ ...deps, metrics: createBillingMetrics(registry) });
  const shown = async () => (await registry.metrics()).includes('gateway_ledger_faults 3\n');
  await waitFor(shown, { description: 'the faults found before' });
  await rival.end();
  await verification;
  expect(await registry.metrics()).toContain('gateway_ledger_faults 0\n');
});

test('after a verification that took hours the next one waits for as long again, even while the ledger is wrong, since it holds back vacuum', async () => {
  await using started = await startTestBilling();
  const { billing, database, deps, travel } = started;
  const hourMs = 3_600_000;
  await billing.charge({ events: [usageEvent({ tenantId: uuidv7(), costNanoUsd: 9n })] }, service);
  await rowsOf(database.url, 'update billing.transactions set balance_after_nano_usd = 1');
  const faults = async () => (await rowsOf(database.url, 'select faults from billing.ledger_verifications'))[0]!.faults;
  const verify = () => verifyLedger({ ...deps, metrics: createBillingMetrics(new Registry()) });
  const rival = new pg.Client({ connectionString: database.url });
  await rival.connect();
  await rival.query('begin; lock table billing.entries in access exclusive mode');
  const long = verify();
  const waiting = `select from pg_locks where not granted and relation = 'billing.entries'::regclass`;
  await waitFor(async () => (await rival.query(waiting)).rowCount, { description: 'the running verification' });
  travel(3 * hourMs);
  await rival.end();
  await long;
  expect(await faults()).toBe(1);
  await rowsOf(database.url, 'update billing.transactions set balance_after_nano_usd = 0');
  travel(2.9 * hourMs);
  await verify();
  expect(await faults()).toBe(1);
  travel(0.2 * hourMs);
  await verify();
  expect(await faults()).toBe(0);
});

test('a verification of the ledger, which may take minutes, ends when its process stops or its caller leaves', async () => {
  await using testDatabase = await createTestDatabase();
  const rival = new pg.Client({ connectionString: testDatabase.url });
  await rival.connect();
  await rival.query('begin; lock table billing.entries in access exclusive mode');
  const { billing, close } = await startTestBilling(testDatabase, { withWorkers: true });
  const caller = new AbortController();
  const asked = billing.verifyLedger({}, { ...service, signal: caller.signal });
  asked.catch(() => {});
  const waiting = `select from pg_locks where not granted and relation = 'billing.entries'::regclass`;
  const bothWait = async () => (await rival.query(waiting)).rowCount === 2;
  await waitFor(bothWait, { description: 'two verifications, that of the start and the one asked for' });
  caller.abort();
  await close();
  const noneWaits = async () => (await rival.query(waiting)).rowCount === 0;
  await waitFor(noneWaits, { description: 'the end of both in Postgres, where they would go on for hours' });
  await rival.end();
});

test('the verification finds an invoice that is missing, asks for another sum than was accrued, or counts as paid without a payment', async () => {
  await using broken = await startTestBilling();
  const [gone, dear, unpaid, whole] = [person(), person(), person(), person()].map(({ tenantId }) => tenantId);
  const events = [gone, dear, unpaid, whole].map((tenantId) => usageEvent({ tenantId: tenantId!, costNanoUsd: 9n }));
  await broken.billing.charge({ events }, service);
  await toNextMonth(broken, 2 * 3_600_000);
  expect(await finalizeInvoices(broken.deps)).toBe(4);
  await sound(broken);
  const admin = new pg.Client({ connectionString: broken.database.url });
  await admin.connect();
  await admin.query(`
    set search_path = billing;
    delete from invoice_lines where tenant_id = '${gone}';
    delete from invoices where tenant_id = '${gone}';
    update invoices set total_nano_usd = 8, credits_nano_usd = 1 where tenant_id = '${dear}';
    update invoices set paid_at = issued_at where tenant_id = '${unpaid}'`);
  await admin.end();
  const { faults } = await broken.billing.verifyLedger({}, service);
  const found = (tenantId: string | undefined) =>
    faults
      .filter((fault) => fault.tenantId === tenantId)
      .map(({ kind, expectedNanoUsd, actualNanoUsd }) => [kind, expectedNanoUsd, actualNanoUsd]);
  const { WRONG_INVOICE } = LedgerFaultKind;
  expect(found(gone)).toEqual([
    [WRONG_INVOICE, 9n, 0n],
    [WRONG_INVOICE, 9n, 0n],
  ]);
  expect(found(dear)).toEqual([
    [WRONG_INVOICE, 9n, 8n],
    [WRONG_INVOICE, 9n, 8n],
  ]);
  expect(found(unpaid)).toEqual([[WRONG_INVOICE, 9n, 0n]]);
  expect(found(whole)).toEqual([]);
});

test('the verification finds a transaction whose wallet balance does not follow from the one before it', async () => {
  await using broken = await startTestBilling();
  const owner = person();
  const { tenantId } = owner;
  const grant = (amountNanoUsd: bigint) =>
    broken.billing.grantCredit(
      { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd, description: '' },
      operator,
    );
  for (const amount of [5n, 7n, 11n]) await grant(amount);
  await sound(broken);
  const { transactions } = await broken.billing.listTransactions({}, as(owner));
  expect(transactions.map(({ balanceAfterNanoUsd }) => balanceAfterNanoUsd)).toEqual([23n, 12n, 5n]);
  const admin = new pg.Client({ connectionString: broken.database.url });
  await admin.connect();
  const tell = (balance: number) =>
    admin.query('update billing.transactions set balance_after_nano_usd = $2 where id = $1', [
      transactions[1]!.id,
      balance,
    ]);
  await tell(13);
  const { faults } = await broken.billing.verifyLedger({}, service);
  expect(
    faults.map(({ subjectId, expectedNanoUsd, actualNanoUsd }) => [subjectId, expectedNanoUsd, actualNanoUsd]),
  ).toEqual([
    [transactions[1]!.id, 12n, 13n],
    [transactions[0]!.id, 24n, 23n],
  ]);
  expect(faults.every(({ kind }) => kind === LedgerFaultKind.WRONG_BALANCE)).toBe(true);
  await tell(12);
  await admin.end();
  await sound(broken);
});

test('the verification finds a credit or payment whose amount was changed in a list, a lot or a commitment, and an account, lot or commitment that is gone', async () => {
  await using broken = await startTestBilling();
  const { billing, database } = broken;
  const [changed, gone] = [uuidv7(), uuidv7()];
  const periodStart = timestampFromMs(Date.UTC(2150, 0));
  const period = { periodStart, periodEnd: timestampFromMs(Date.UTC(2151, 0)) };
  for (const tenantId of [changed, gone]) {
    const movement = () => ({ requestId: uuidv7(), tenantId, description: 'agreed' });
    await billing.grantCredit({ ...movement(), source: LotSource.PURCHASE, amountNanoUsd: 7n }, operator);
    await billing.createCommitment({ ...movement(), amountNanoUsd: 4n, ...period }, operator);
    await billing.postAdjustment({ ...movement(), amountNanoUsd: -6n }, operator);
    await billing.charge({ events: [usageEvent({ tenantId, costNanoUsd: 3n })] }, service);
  }
  await toNextMonth(broken, 2 * 3_600_000);
  await finalizeInvoices(broken.deps);
  const { invoices } = await billing.listInvoices({}, as(person({ tenantId: changed })));
  await billing.markInvoicePaid({ tenantId: changed, invoiceId: invoices[0]!.id }, operator);
  await sound(broken);

  const found = async (tenantId: string) =>
    (await billing.verifyLedger({ tenantId }, service)).faults
      .map(({ kind, expectedNanoUsd, actualNanoUsd }) => [kind, Number(expectedNanoUsd), Number(actualNanoUsd)])
      .toSorted();
  const { UNBALANCED_TRANSACTION, WRONG_BALANCE } = LedgerFaultKind;
  const change = (text: string) => rowsOf(database.url, `update billing.${text} where tenant_id = '${changed}'`);
  await change(
    'transactions set amount_nano_usd = case when type > 1 then amount_nano_usd + 1 else amount_nano_usd end',
  );
  await change('lots set granted_nano_usd = granted_nano_usd + 1');
  await change('commitments set amount_nano_usd = 5, consumed_nano_usd = 1');
  expect(await found(changed)).toEqual([
    // The deduction, the payment of the invoice, the purchase, and what the payment left of a cent.
    [UNBALANCED_TRANSACTION, -6, -5],
    [UNBALANCED_TRANSACTION, 2, 3],
    [UNBALANCED_TRANSACTION, 7, 8],
    [UNBALANCED_TRANSACTION, 9_999_998, 9_999_999],
    [WRONG_BALANCE, 4, 5],
    [WRONG_BALANCE, 7, 8],
    [WRONG_BALANCE, 9_999_998, 9_999_999],
  ]);
  for (const table of ['lots', 'commitments']) {
    await rowsOf(database.url, `delete from billing.${table} where tenant_id = '${gone}'`);
  }
  expect(await found(gone)).toEqual([
    [WRONG_BALANCE, 4, 0],
    [WRONG_BALANCE, 4, 0],
    [WRONG_BALANCE, 7, 0],
  ]);
  await rowsOf(database.url, `delete from billing.accounts where tenant_id = '${gone}'`);
  expect(await found(gone)).toContainEqual([WRONG_BALANCE, 11, 0]);
});
