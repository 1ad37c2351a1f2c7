import type { CallOptions } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ReminderPoint, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { openServiceDatabase, type ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { createTestDatabase, rowsOf, type TestDatabase } from '../../../test/support/postgres.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { RetirementRow } from '../db/retirement.entities.ts';
import { dedupeKey, dedupePrefix } from './dedupe-key.ts';
import { planReminders } from './plan-reminders.ts';
import { recallMails } from './recall-mails.ts';
import { type RecipientDeps, recipients } from './recipients.ts';
import { remind, startReminders } from './reminders.ts';
import { type ReminderDeps, sendDueReminders } from './send-due-reminders.ts';

const clock = new ManualClock(Date.parse('2030-01-01T00:00:00Z'));
const [reached, waiting] = [uuidv7(), uuidv7()];
let own: TestDatabase;
let database: ServiceDatabase;
beforeAll(async () => {
  own = await createTestDatabase();
  database = await openServiceDatabase({ service: 'models', connection: own.url, entities: [], logger: silentLogger });
});
afterAll(async () => {
  await database?.close();
  await own?.drop();
});

const sql = (text: string, ...values: unknown[]) => database.pool.query(text, values);
const recall = (withdrawMail: ReminderDeps['auth']['withdrawMail']) =>
  recallMails({ database, clock, auth: { withdrawMail } } as unknown as ReminderDeps, new AbortController().signal);

async function oneWaits(): Promise<void> {
  const blocked =
    'select from pg_stat_activity where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0';
  await waitFor(async () => (await rowsOf(own.url, blocked)).length === 1, { description: 'a transaction to wait' });
}

/** A retirement whose mails of two points were handed over for both users, and are to be taken back. */
async function newRetirement(): Promise<string> {
  const [modelId, id] = [uuidv7(), uuidv7()];
  await sql(
    `insert into models (id, name, display_name, owned_by, operations, visibility, created_at)
      values ($1, $2, '', '', '{1}', 1, now())`,
    modelId,
    modelId,
  );
  await sql(
    `insert into retirements (id, model_id, deprecated_at, sunset_at, retirement_note, recalls_mails)
      values ($1, $2, '2029-12-01', '2030-03-01', 'None.', true)`,
    id,
    modelId,
  );
  for (const point of [ReminderPoint.ANNOUNCEMENT, ReminderPoint.THIRTY_DAYS]) {
    await sql(`insert into reminder_points values ($1, $2, now(), now())`, id, point);
    await sql(
      `insert into reminders (id, retirement_id, point, user_id, email, status, due_at, sent_at)
        select id, $1, $2, user_id, '', $5, now(), now() from unnest($3::uuid[], $4::uuid[]) as sent (id, user_id)`,
      id,
      point,
      [uuidv7(), uuidv7()],
      [reached, waiting],
      ReminderStatus.SENT,
    );
  }
  return id;
}

test('only mails that were taken back are sent anew when they are due, or cancelled: those that reached somebody are not repeated', async () => {
  const [moved, withdrawn] = [await newRetirement(), await newRetirement()];
  // Its date was moved before that, while Auth was away.
  const due = new Date(clock.now() - 60_000);
  await sql('update retirements set sunset_at = $2 where id = $1', moved, new Date(due.getTime() + 30 * 86_400_000));
  await sql('update reminder_points set due_at = $2 where retirement_id = $1', moved, due);
  await sql('update retirements set withdrawn_at = now() where id = $1', withdrawn);
  const outbox = new Set([moved, withdrawn].map((id) => dedupeKey(id, ReminderPoint.THIRTY_DAYS, waiting)));
  await recall(async ({ dedupeKeyPrefix, notedDedupeKeys }) => {
    for (const key of notedDedupeKeys!) outbox.delete(key);
    return { dedupeKeys: [...outbox].filter((key) => key.startsWith(dedupeKeyPrefix!)) } as never;
  });
  expect(outbox.size).toBe(0);
  const { ANNOUNCEMENT, THIRTY_DAYS } = ReminderPoint;
  const { SENT, CANCELLED } = ReminderStatus;
  const statuses = async (id: string) => {
    const text = 'select point, user_id, status from reminders where retirement_id = $1 order by point, user_id';
    return (await sql(text, id)).rows.map(({ point, user_id, status }) => [point, user_id, status]);
  };
  const delivered = [ANNOUNCEMENT, THIRTY_DAYS].flatMap((point) =>
    [reached, waiting].map((user) => [point, user, SENT]),
  );
  expect(await statuses(moved)).toEqual(delivered.slice(0, 3));
  expect(await statuses(withdrawn)).toEqual([...delivered.slice(0, 3), [THIRTY_DAYS, waiting, CANCELLED]]);
  const { rows } = await sql('select retirement_id, point, due_at from reminder_points where done_at is null');
  expect(rows).toEqual([{ retirement_id: moved, point: THIRTY_DAYS, due_at: due }]);
  await sql('update reminder_points set done_at = now() where done_at is null');
});

test('a point that an outage has skipped is for all its users again once the date moves', async () => {
  const id = await newRetirement();
  const { SENT, CANCELLED } = ReminderStatus;
  const text = 'update reminders set status = $2 where retirement_id = $1 and user_id = $3 and point = $4';
  await sql(text, id, CANCELLED, waiting, ReminderPoint.THIRTY_DAYS);
  const sunsetAt = new Date('2030-06-01');
  await transaction(database, (em) =>
    planReminders(em, { id, sunsetAt } as RetirementRow, new Date('2030-02-25'), false),
  );
  const { rows } = await sql('select user_id, status from reminders where retirement_id = $1 and point = 2', id);
  expect(rows).toEqual([{ user_id: reached, status: SENT }]);
  await sql('update retirements set recalls_mails = false');
});

test('a date is not moved while mails with the former one are taken back: it would be planned by that', async () => {
  const id = await newRetirement();
  let moving: Promise<unknown> | undefined;
  await recall(async () => {
    moving ??= sql(`update retirements set sunset_at = '2030-06-01' where id = $1`, id);
    await oneWaits();
    return { dedupeKeys: [] } as never;
  });
  await moving;
});

test('a point that is found too late is not skipped if its date is moved meanwhile', async () => {
  const id = await newRetirement();
  const change = async (client: Pick<typeof database.pool, 'query'>, sunset: string, due: string, recalls: boolean) => {
    await client.query('update retirements set sunset_at = $2, recalls_mails = $3 where id = $1', [
      id,
      sunset,
      recalls,
    ]);
    const text = 'update reminder_points set due_at = $3, done_at = null where retirement_id = $1 and point = $2';
    await client.query(text, [id, ReminderPoint.THIRTY_DAYS, due]);
  };
  await change(database.pool, '2030-01-05', '2029-12-06', false);
  const mover = await database.pool.connect();
  await mover.query('begin');
  await change(mover as never, '2030-06-01', '2030-05-02', true);
  const deps = { database, clock, logger: silentLogger } as unknown as ReminderDeps;
  const sending = sendDueReminders(deps, new AbortController().signal);
  await oneWaits();
  await mover.query('commit');
  mover.release();
  await sending;
  const { rows } = await sql('select due_at from reminder_points where retirement_id = $1 and done_at is null', id);
  expect(rows).toEqual([{ due_at: new Date('2030-05-02') }]);
});

test('nothing of a retirement is sent while its mails are taken back', async () => {
  const id = await newRetirement();
  const due = new Date(clock.now());
  await sql('update reminder_points set due_at = $2, done_at = null where retirement_id = $1', id, due);
  const usage = {
    listModelUsers() {
      throw new Error('a point is about to be sent');
    },
  };
  const deps = { database, clock, logger: silentLogger, usage } as unknown as ReminderDeps;
  await sendDueReminders(deps, new AbortController().signal);
  await sql('update retirements set recalls_mails = false where id = $1', id);
  await expect(sendDueReminders(deps, new AbortController().signal)).rejects.toThrow('a point is about to be sent');
});

describe('a batch of mails that Auth refuses is handed over one by one:', () => {
  const { PENDING, SENT, FAILED } = ReminderStatus;

  /** Hands over the reminders of one point to two users, whose mails are answered as `answer` says; returns what became of them. */
  async function handOver(answer: (userId: string) => void) {
    const id = await newRetirement();
    const due = new Date(clock.now());
    await sql('update reminder_points set due_at = $2, done_at = null where retirement_id = $1 and point = 1', id, due);
    await sql('update reminders set status = $2 where retirement_id = $1 and point = 1', id, PENDING);
    await sql('update retirements set recalls_mails = false where id = $1', id);
    const sendMail: ReminderDeps['auth']['sendMail'] = async ({ mails }) => {
      if (mails!.length > 1) throw invalidRequest('mails', 'One of the addresses is invalid.');
      answer(mails![0]!.toUserId!);
      return {} as never;
    };
    const nobodyElse = { listModelUsers: async function* () {}, listModelAllowlistUsers: async () => ({ users: [] }) };
    const deps = { database, clock, logger: silentLogger, publicUrl: '', usage: nobodyElse, keys: nobodyElse };
    const sending = sendDueReminders(
      { ...deps, auth: { sendMail } } as unknown as ReminderDeps,
      new AbortController().signal,
    );
    const outcome = await sending.then(() => 'done', String);
    const { rows } = await sql(
      'select user_id, status, attempts, last_error from reminders where retirement_id = $1 and point = 1 order by user_id',
      id,
    );
    await sql('update retirements set recalls_mails = true where id = $1', id);
    return { outcome, rows: rows.map(({ user_id, ...row }) => [user_id, row]) };
  }

  test('only the refused one fails, with the reason', async () => {
    const { outcome, rows } = await handOver((userId) => {
      if (userId === waiting) throw invalidRequest('to_email', 'The address is invalid.');
    });
    expect(outcome).toBe('done');
    expect(rows).toEqual([
      [reached, { status: SENT, attempts: 1, last_error: '' }],
      [waiting, { status: FAILED, attempts: 1, last_error: 'The address is invalid.' }],
    ]);
  });

  test('when Auth is lost meanwhile, all are tried again', async () => {
    const { outcome, rows } = await handOver((userId) => {
      if (userId === waiting) throw gatewayError(ErrorReason.OVERLOADED, 'Auth is away.');
    });
    expect(outcome).toContain('Auth is away.');
    const tried = { status: PENDING, attempts: 1, last_error: 'Auth is away.' };
    expect(rows).toEqual([
      [reached, tried],
      [waiting, tried],
    ]);
  });

  test('what a slow Auth has taken counts, and the rest goes with the next batch: a transaction waits no more than ten seconds', async () => {
    const { rows } = await handOver((userId) => {
      if (userId === waiting) throw gatewayError(ErrorReason.OVERLOADED, 'Auth is away.');
      clock.advance(3_000);
    });
    expect(rows).toEqual([
      [reached, { status: SENT, attempts: 1, last_error: '' }],
      [waiting, { status: PENDING, attempts: 1, last_error: 'Auth is away.' }],
    ]);
  });
});

test('all pages of users who were told of a retirement hear once that it was withdrawn, though two processes send and Auth is lost meanwhile', async () => {
  const id = await newRetirement();
  const told = Array.from({ length: 1_100 }, () => uuidv7());
  const left = new Set(told.slice(0, 50));
  await sql('delete from reminders where retirement_id = $1', id);
  await sql(
    `insert into reminders (id, retirement_id, point, user_id, email, status, due_at, sent_at)
      select user_id, $1, 1, user_id, '', $3, now(), now() from unnest($2::uuid[]) as told (user_id)`,
    id,
    told,
    ReminderStatus.SENT,
  );
  await sql('update retirements set recalls_mails = false, withdrawn_at = now() where id = $1', id);
  const due = new Date(clock.now());
  await sql('insert into reminder_points values ($1, $2, $3)', id, ReminderPoint.WITHDRAWAL, due);
  const outbox = new Map<string, string>();
  let handedOver = 0;
  const auth = {
    getUsers: async ({ userIds }: { userIds: string[] }) => ({
      users: userIds.map((userId) => ({
        id: userId,
        tenantId: '',
        email: `${userId}@example.com`,
        isActive: !left.has(userId),
      })),
    }),
    async sendMail({ mails }: { mails: { dedupeKey: string; toUserId: string; subject: string }[] }) {
      for (const { dedupeKey, toUserId } of mails) outbox.set(dedupeKey, toUserId);
      handedOver += 1;
      if (handedOver === 3) throw gatewayError(ErrorReason.OVERLOADED, 'Auth has taken them, and its answer is lost.');
    },
  };
  const deps = { database, clock, logger: silentLogger, publicUrl: '', auth } as unknown as ReminderDeps;
  const round = () => sendDueReminders(deps, new AbortController().signal);
  const first = await Promise.allSettled([round(), round()]);
  expect(first.filter(({ status }) => status === 'rejected')).toHaveLength(1);
  await round();
  expect([...outbox.values()].sort()).toEqual(told.slice(50));
  const { rows } = await sql(
    'select done_at from reminder_points where retirement_id = $1 and point = $2',
    id,
    ReminderPoint.WITHDRAWAL,
  );
  expect(rows).toEqual([{ done_at: due }]);
  const pending = await sql(
    'select status, count(*)::int from reminders where retirement_id = $1 and point = $2 group by 1',
    id,
    ReminderPoint.WITHDRAWAL,
  );
  expect(pending.rows).toEqual([{ status: ReminderStatus.SENT, count: 1_050 }]);
});

test('a retirement whose mails cannot be sent, or taken back, holds up no other, and the round fails, which is logged', async () => {
  await sql('update reminder_points set done_at = now() where done_at is null');
  await sql('update retirements set recalls_mails = false');
  const [stuck, unreadable] = [await newRetirement(), await newRetirement()];
  const [sent, moved] = [await newRetirement(), await newRetirement()];
  const due = new Date(clock.now());
  for (const [id, dueAt] of [
    [unreadable, new Date(due.getTime() - 1)],
    [sent, due],
  ] as const) {
    await sql('update retirements set recalls_mails = false where id = $1', id);
    await sql(
      'update reminder_points set due_at = $2, done_at = null where retirement_id = $1 and point = 1',
      id,
      dueAt,
    );
  }
  const { rows: unreadableModels } = await sql('select model_id from retirements where id = $1', unreadable);
  const usage = {
    listModelUsers({ model }: { model: string }) {
      if (model === unreadableModels[0]!.model_id) throw new Error('the users of a model cannot be read');
      return [];
    },
  };
  const keys = { listModelAllowlistUsers: async () => ({ users: [] }) };
  const auth = {
    async withdrawMail({ dedupeKeyPrefix }: { dedupeKeyPrefix: string }) {
      if (dedupeKeyPrefix === dedupePrefix(stuck)) throw new Error('mails cannot be taken back');
      return { dedupeKeys: [] };
    },
  };
  const deps = { database, clock, logger: silentLogger, publicUrl: '', usage, keys, auth } as unknown as ReminderDeps;
  await expect(remind(deps, new AbortController().signal)).rejects.toThrow('mails cannot be taken back');
  const { rows: recalling } = await sql('select id from retirements where id = any($1) and recalls_mails', [
    stuck,
    moved,
  ]);
  expect(recalling).toEqual([{ id: stuck }]);
  const { rows: waiting } = await sql('select retirement_id as id from reminder_points where done_at is null');
  expect(waiting).toEqual([{ id: unreadable }]);
});

test('a stop does not wait for a service that is silent about who is told', async () => {
  await sql('update reminder_points set done_at = now() where done_at is null');
  await sql('update retirements set recalls_mails = false');
  const id = await newRetirement();
  const due = new Date(clock.now());
  await sql('update retirements set recalls_mails = false where id = $1', id);
  await sql('update reminder_points set due_at = $2, done_at = null where retirement_id = $1 and point = 1', id, due);
  const asked = Promise.withResolvers<AbortSignal | undefined>();
  const usage = {
    async *listModelUsers(_request: object, { signal }: CallOptions) {
      asked.resolve(signal);
      await new Promise((_, reject) => signal?.addEventListener('abort', reject));
    },
  };
  const deps = { database, clock, logger: silentLogger, usage } as unknown as ReminderDeps;
  const reminders = startReminders(deps);
  reminders.wake();
  expect(await asked.promise).toBeInstanceOf(AbortSignal);
  await reminders.close();
});

test('all pages of users with the model on an allowlist are told, and all pages of their organizations', async () => {
  const pagesOf = (ids: readonly string[], after: string) => ids.filter((id) => id > after).slice(0, 2);
  const ids = ['a', 'b', 'c', 'd', 'e'];
  const deps = {
    usage: { listModelUsers: async function* () {} },
    keys: {
      listModelAllowlistUsers: async ({ afterUserId }: { afterUserId: string }) => ({
        users: pagesOf(ids, afterUserId).map((userId) => ({ userId, tenantId: `organization of ${userId}` })),
      }),
    },
    auth: {
      listActiveUsers: async ({ tenantIds, afterUserId }: { tenantIds: string[]; afterUserId: string }) => {
        expect(tenantIds).toEqual(ids.map((id) => `organization of ${id}`));
        return { users: pagesOf(ids, afterUserId).map((id) => ({ id })) };
      },
    },
  } as unknown as RecipientDeps;
  const { signal } = new AbortController();
  const told = await Array.fromAsync(recipients(deps, { name: 'model', grantedTo: null }, clock.now(), signal));
  expect(told.flat().map(({ id }) => id)).toEqual(ids);
});
