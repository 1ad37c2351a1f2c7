import pg from 'pg';
import { expect, test } from 'vitest';
import { BudgetKind } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7, uuidv7Ms } from '#shared/ids.ts';
import { logCollector } from '../../../../test/support/rpc-carriers.ts';
import { person, service, startTestBilling } from '../../fixtures/test-billing.ts';
import { migrations } from './index.ts';

test('room from before the upgrade was found when its holder asked for it, and that of an older version at work when it is stored', async () => {
  await using started = await startTestBilling();
  const { billing, database } = started;
  const { tenantId, userId } = person();
  const leaseId = uuidv7();
  const demands = [{ kind: BudgetKind.API_KEY, leaseId, limitNanoUsd: 9n }];
  await billing.lease(
    { holderId: uuidv7(), tenantId, userId, apiKeyId: uuidv7(), costMaxNanoUsd: 1n, demands },
    service,
  );
  const owning = new pg.Client({ connectionString: database.url });
  await owning.connect();
  await owning.query('alter table billing.leases drop column granted_at');
  await owning.query("delete from billing.schema_migrations where name = '0023-know-when-room-was-found'");
  await migrateAll(database.url, [{ service: 'billing', migrations }], logCollector().logger);
  await owning.query(`
    insert into billing.leases (tenant_id, id, kind, subject_id, period_start, holder_id, central, room_nano_usd, settled_at,
      expires_at)
    select tenant_id, gen_random_uuid(), kind, subject_id, period_start, holder_id, central, 0, settled_at, expires_at
    from billing.leases`);
  const { rows } = await owning.query<{ granted_at: Date; is_new: boolean }>(
    'select granted_at, granted_at > now() - interval $$1 minute$$ as is_new from billing.leases order by id = $1 desc',
    [leaseId],
  );
  await owning.end();
  expect(rows).toEqual([
    { granted_at: new Date(uuidv7Ms(leaseId)), is_new: true },
    { granted_at: expect.any(Date), is_new: true },
  ]);
});
