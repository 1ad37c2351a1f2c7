import type pg from 'pg';
import { ReminderPoint, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type RetirementSchedule, successorOf } from '../domain/retirement.ts';

/** A point that is due, with what its mails say. */
export type DuePoint = {
  retirementId: string;
  point: ReminderPoint;
  dueAt: Date;
  modelId: string;
  model: string;
  visibility: number;
  schedule: RetirementSchedule;
};

type DueRow = {
  retirement_id: string;
  point: ReminderPoint;
  due_at: Date;
  model_id: string;
  name: string;
  visibility: number;
  deprecated_at: Date;
  sunset_at: Date | null;
  replacement_model_name: string | null;
  retirement_note: string | null;
};

const duePoints = `
  select p.retirement_id, p.point, p.due_at, r.model_id, m.name, m.visibility,
    r.deprecated_at, r.sunset_at, r.replacement_model_name, r.retirement_note
  from reminder_points p join retirements r on r.id = p.retirement_id join models m on m.id = r.model_id
  where p.done_at is null and p.due_at <= $1 and not r.recalls_mails
    and (r.withdrawn_at is not null) = (p.point = ${ReminderPoint.WITHDRAWAL})`;

/** Whether any mail is to be taken back or sent. */
export async function hasDueReminders(db: Sql, now: Date): Promise<boolean> {
  const { rows } = await db.query<{ is_due: boolean }>({
    name: 'reminders-due',
    text: `select exists (select from retirements where recalls_mails) or exists (${duePoints}) as is_due`,
    values: [now],
  });
  return rows[0]!.is_due;
}

/** The points that are due, the longest due first. */
export async function findDuePoints(db: Sql, now: Date): Promise<DuePoint[]> {
  const { rows } = await db.query<DueRow>(`${duePoints} order by p.due_at, p.point`, [now]);
  return rows.map(duePoint);
}

/**
 * The current state of a point, if it is still due, locked until the transaction ends: whoever moves the date or withdraws has to wait, so
 * that no mail with an earlier date is handed over after their change.
 */
export async function holdDuePoint(
  client: pg.ClientBase,
  { retirementId, point }: Pick<DuePoint, 'retirementId' | 'point'>,
  now: Date,
): Promise<DuePoint | null> {
  const { rows } = await client.query<DueRow>(`${duePoints} and p.retirement_id = $2 and p.point = $3 for share of r`, [
    now,
    retirementId,
    point,
  ]);
  return rows[0] === undefined ? null : duePoint(rows[0]);
}

const duePoint = (row: DueRow): DuePoint => ({
  retirementId: row.retirement_id,
  point: row.point,
  dueAt: row.due_at,
  modelId: row.model_id,
  model: row.name,
  visibility: row.visibility,
  schedule: {
    deprecatedAtMs: row.deprecated_at.getTime(),
    sunsetAtMs: row.sunset_at?.getTime() ?? null,
    successor: successorOf(row.replacement_model_name, row.retirement_note),
  },
});

/**
 * Some users, in the order of ids, who were last told that the model retires: of the retirement that was withdrawn or of an earlier one,
 * whose withdrawal they did not hear of.
 */
export async function findTold(db: Sql, { modelId }: DuePoint, afterUserId: string, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ user_id: string }>(
    `select user_id from (
       select distinct on (user_id) user_id, point from reminders s join retirements r on r.id = s.retirement_id
       where r.model_id = $1 and s.status = $2 and user_id > $3 order by user_id, sent_at desc, point desc) as last
     where point <> $4 order by user_id limit $5`,
    [modelId, ReminderStatus.SENT, afterUserId, ReminderPoint.WITHDRAWAL, limit],
  );
  return rows.map((row) => row.user_id);
}

/** Adds users of a point who are not among its reminders yet. */
export async function addReminders(
  client: pg.ClientBase,
  due: DuePoint,
  users: readonly { id: string; email: string }[],
): Promise<void> {
  await client.query(
    `insert into reminders (id, retirement_id, point, user_id, email, status, due_at)
     select id, $1, $2, user_id, email, $3, $4 from unnest($5::uuid[], $6::uuid[], $7::text[]) as u (id, user_id, email)
     on conflict (retirement_id, point, user_id) do nothing`,
    [
      due.retirementId,
      due.point,
      ReminderStatus.PENDING,
      due.dueAt,
      users.map(uuidv7),
      users.map(({ id }) => id),
      users.map(({ email }) => email),
    ],
  );
}

export type PendingReminder = { id: string; userId: string; email: string };

/** Some reminders of a point which wait to be handed over; nobody else takes them until the transaction ends. */
export async function takePending(
  client: pg.ClientBase,
  { retirementId, point }: DuePoint,
  limit: number,
): Promise<PendingReminder[]> {
  const { rows } = await client.query<{ id: string; user_id: string; email: string }>(
    `select id, user_id, email from reminders where retirement_id = $1 and point = $2 and status = $3
     order by id limit $4 for update`,
    [retirementId, point, ReminderStatus.PENDING, limit],
  );
  return rows.map((row) => ({ id: row.id, userId: row.user_id, email: row.email }));
}

/** Notes what became of reminders. */
export async function settleReminders(
  client: pg.ClientBase,
  ids: readonly string[],
  end: { status: ReminderStatus; at: Date; subject: string; text: string; error?: string },
): Promise<void> {
  await client.query(
    `update reminders set status = $2, sent_at = $3, subject = $4, text = $5, last_error = $6, attempts = attempts + 1
     where id = any($1)`,
    [ids, end.status, end.status === ReminderStatus.SENT ? end.at : null, end.subject, end.text, end.error ?? ''],
  );
}
