import pg from 'pg';
import { expect, test } from 'vitest';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { pageRows } from '#shared/page.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../../../../test/support/postgres.ts';
import { readSoFar } from '../../../../test/support/read-so-far.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { operator, service, startTestBilling, usageEvent } from '../../fixtures/test-billing.ts';
import { pageOfTransactions, transactionsInOrder } from '../../transactions.ts';
import { billingEntities } from '../entities.ts';
import { migrations } from './index.ts';

const tenantId = uuidv7();

/** 20,000 transactions of 40 days, each posted within the hour after the time in its id. The days are to come: no worker looks for their invoices. */
async function fill({ url }: TestDatabase): Promise<void> {
  const owning = new pg.Client({ connectionString: url });
  await owning.connect();
  await owning.query(`
    set search_path = billing;
    set session_replication_role = replica;
    insert into transactions (tenant_id, id, type, amount_nano_usd, balance_after_nano_usd, posted_at, invoice_month)
    select '${tenantId}', (lpad(to_hex(ms), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid,
      case when n % 997 = 1 then ${TransactionType.REFUND} when n % 1009 = 1 then 0 else ${TransactionType.USAGE} end,
      n, 0, posted, date_trunc('month', posted at time zone 'UTC')
    from (select n, (4115491200 + n * 172.8)::bigint * 1000 as ms from generate_series(1, 20000) n) as made,
      to_timestamp(ms / 1000 + n % 3600) as posted;
    insert into invoices (tenant_id, id, month) select tenant_id, gen_random_uuid(), invoice_month from transactions group by 1, 3;
    drop table transaction_counts;
    drop function count_transactions cascade;
    drop index transactions_other_than_charges;
    delete from schema_migrations where name = '0012-count-transactions';
    analyze transactions`);
  await owning.end();
  await migrateAll(url, [{ service: 'billing', migrations }], logCollector().logger);
}

/** How many transactions were read so far. */
const rowsRead = ({ url }: TestDatabase): Promise<number> =>
  readSoFar(url, "select idx_tup_fetch + seq_tup_read from pg_stat_user_tables where relname = 'transactions'");

test('each page of a list of transactions has its rows and the exact total, and reads no more than its days, however deep it is; the export has all of them', async () => {
  await using testDatabase = await createTestDatabase();
  const { url } = testDatabase;
  await fill(testDatabase);
  {
    await using started = await startTestBilling(testDatabase);
    const grant = { requestId: uuidv7(), tenantId, source: LotSource.PROMOTION, amountNanoUsd: 9n, description: '' };
    await started.billing.grantCredit(grant, operator);
    for (const costNanoUsd of [1_000n, 2_000n]) {
      await started.billing.charge({ events: [usageEvent({ tenantId, costNanoUsd })] }, service);
    }
  }
  const { USAGE: type, REFUND } = TransactionType;
  const day = (text: string) => Temporal.PlainDate.from(text);
  const lists = [
    { by: {}, sql: 'type > 0' },
    { by: { type }, sql: `type = ${type}` },
    { by: { type: REFUND }, sql: `type = ${REFUND}` },
    {
      by: { firstDay: day('2100-06-03'), lastDay: day('2100-06-20') },
      sql: "type > 0 and posted_at >= '2100-06-03Z' and posted_at < '2100-06-21Z'",
    },
    { by: { type, lastDay: day('2100-06-01') }, sql: `type = ${type} and posted_at < '2100-06-02Z'` },
    { by: { invoiceMonth: '2100-06-01' }, sql: "type > 0 and invoice_month = '2100-06-01'" },
    { by: { firstDay: day('2200-01-01') }, sql: 'false' },
  ];
  const idsOf = (sql: string) =>
    rowsOf(url, `select id from billing.transactions where tenant_id = $1 and ${sql} order by id desc`, [tenantId]);
  const expected = await Promise.all(lists.map(async ({ sql }) => (await idsOf(sql)).map(({ id }) => id)));

  const { logger } = logCollector();
  const open = () => openServiceDatabase({ service: 'billing', connection: url, entities: billingEntities, logger });
  const database = await open();
  const readBefore = await rowsRead(testDatabase);
  let pages = 0;
  for (const [index, { by }] of lists.entries()) {
    const ids = expected[index]!;
    const last = Math.ceil(ids.length / 20);
    for (const page of new Set([1, 2, Math.ceil(last / 2) + 1, last + 1])) {
      const rowsOfPage = pageRows({ page, limit: 20 });
      const { rows, total } = await pageOfTransactions(database, { tenantId, ...by }, rowsOfPage);
      expect(rows.map(({ id }) => id)).toEqual(ids.slice(rowsOfPage.offset, page * 20));
      expect(total).toBe(ids.length);
      pages += 1;
    }
  }
  await database.close();
  // A day has 500 of them, and a page may reach into a second day.
  expect((await rowsRead(testDatabase)) - readBefore).toBeLessThan(pages * 600);

  const reopened = await open();
  for (const [index, { by }] of lists.entries()) {
    const exported: string[] = [];
    for await (const rows of transactionsInOrder(reopened, { tenantId, ...by }, 150))
      exported.push(...rows.map(({ id }) => id));
    expect(exported).toEqual(expected[index]!.toReversed());
  }
  await reopened.close();
});
