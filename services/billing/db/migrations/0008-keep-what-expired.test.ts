import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import pg from 'pg';
import { expect, test } from 'vitest';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7 } from '#shared/ids.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { operator, service, startTestBilling, usageEvent } from '../../fixtures/test-billing.ts';
import { expireCredit } from '../../workers/expire-credit.ts';
import { migrations } from './index.ts';

const usd = 1_000_000_000n;
const hourMs = 3_600_000;

test('credit written off earlier pays for calls of its time that are charged later, up to what was left', async () => {
  await using started = await startTestBilling();
  const { billing, deps, database } = started;
  const tenantId = uuidv7();
  const nowMs = await deps.databaseNow(deps.database.pool);
  const grant = () =>
    billing.grantCredit(
      {
        requestId: uuidv7(),
        tenantId,
        source: LotSource.PROMOTION,
        amountNanoUsd: 10n * usd,
        expiresAt: timestampFromMs(nowMs + hourMs),
      },
      operator,
    );
  const charge = (costNanoUsd: bigint) =>
    billing.charge({ events: [usageEvent({ tenantId, costNanoUsd, atMs: nowMs - hourMs })] }, service);
  const owner = new pg.Client({ connectionString: database.url });
  await owner.connect();
  await grant();
  await charge(4n * usd);
  await owner.query("update billing.lots set expires_at = now() - interval '1 minute'");
  expect(await expireCredit(deps)).toBe(1);
  await grant();

  await owner.query('alter table billing.lots drop column expired_nano_usd');
  await owner.query("delete from billing.schema_migrations where name = '0008-keep-what-expired'");
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  const { rows } = await owner.query(
    'select expired_nano_usd::float8 / 1e9 as usd from billing.lots order by expires_at',
  );
  expect(rows).toEqual([{ usd: 6 }, { usd: 0 }]);
  await owner.end();

  await charge(7n * usd);
  const { wallet } = await billing.getAccount({ tenantId }, operator);
  expect(wallet!.balanceNanoUsd).toBe(9n * usd);
  expect((await billing.verifyLedger({}, service)).faults).toEqual([]);
});
