import { create } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import { expect, test } from 'vitest';
import {
  ListRemindersRequestSchema,
  ListRetirementsRequestSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { createTestDatabase, rowsOf } from '../../../test/support/postgres.ts';
import { readSoFar } from '../../../test/support/read-so-far.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { modelEntities } from '../db/catalog.entities.ts';
import { listReminders } from './list-reminders.ts';
import { listRetirements } from './list-retirements.ts';

test('a page of reminders or retirements reads little more than itself, however many users were told', async () => {
  await using testDatabase = await createTestDatabase();
  const { url } = testDatabase;
  for (const fill of [
    `insert into models.models (id, name, display_name, owned_by, operations, visibility, created_at)
      select gen_random_uuid(), 'm' || n, '', '', '{1}', 1, now() from generate_series(1, 50) n`,
    `insert into models.retirements (id, model_id, deprecated_at, sunset_at, retirement_note)
      select gen_random_uuid(), id, now(), now(), 'none' from models.models where name like 'm%'`,
    'insert into models.reminder_points (retirement_id, point) select id, 1 from models.retirements',
    `insert into models.reminders (id, retirement_id, point, user_id, email, status, due_at, text)
      select gen_random_uuid(), id, 1, gen_random_uuid(), n, 2, now() - n * interval '1 hour', repeat('a', 1500)
      from models.retirements, generate_series(1, 200) n`,
    'vacuum full models.reminders',
    'vacuum analyze models.reminders',
  ])
    await rowsOf(url, fill);
  const statistics = `select seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relname = 'reminders'`;
  const before = await readSoFar(url, statistics);

  const database = await openServiceDatabase({
    service: 'models',
    connection: url,
    entities: modelEntities,
    logger: silentLogger,
  });
  const caller = create(CallerSchema, {
    kind: CallerKind.SESSION,
    operator: true,
    tenantId: uuidv7(),
    userId: uuidv7(),
  });
  const context = { values: callerContext(caller) } as HandlerContext;
  const asked = create(ListRemindersRequestSchema);
  const { reminders, pageInfo } = await listReminders({ database } as never)(asked, context);
  expect([pageInfo!.total, reminders!.map(({ email }) => email)]).toEqual([10_000n, Array(20).fill('1')]);
  expect(new Set(reminders!.map(({ model }) => model)).size).toBe(20);
  const { retirements } = await listRetirements({ database } as never)(create(ListRetirementsRequestSchema), context);
  expect(retirements!.map(({ remindersSent }) => remindersSent)).toEqual(Array(20).fill(200n));
  await database.close();
  const read = (await readSoFar(url, statistics)) - before;
  expect(read).toBeGreaterThan(0);
  expect(read).toBeLessThan(500);
});
