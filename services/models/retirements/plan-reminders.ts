import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import type { RetirementRow } from '../db/retirement.entities.ts';
import { reminderPlan } from '../domain/reminder-points.ts';

/**
 * Plans the points of a date that was set or moved, in the transaction of the change. Points already past stay as they are; mails that were
 * not handed over yet are prepared again when their point is due by the new date.
 */
export async function planReminders(
  em: SqlEntityManager,
  retirement: RetirementRow,
  now: Date,
  isFirstDate: boolean,
): Promise<void> {
  if (!isFirstDate) await em.execute('update retirements set recalls_mails = true where id = ?', [retirement.id]);
  await em.execute('delete from reminders where retirement_id = ? and status = ?', [
    retirement.id,
    ReminderStatus.PENDING,
  ]);
  for (const { point, dueAtMs } of reminderPlan(retirement.sunsetAt!.getTime(), now.getTime(), isFirstDate)) {
    await em.execute(
      `insert into reminder_points (retirement_id, point, due_at) values (?, ?, ?)
       on conflict (retirement_id, point) do update set due_at = excluded.due_at`,
      [retirement.id, point, dueAtMs === null ? null : new Date(dueAtMs)],
    );
  }
}

/** Cancels what was not handed over, in the transaction of a withdrawal; the worker leaves withdrawn retirements alone. */
export async function cancelReminders(em: SqlEntityManager, retirementId: string): Promise<void> {
  await em.execute('update retirements set recalls_mails = true where id = ?', [retirementId]);
  await em.execute('update reminders set status = ? where retirement_id = ? and status = ?', [
    ReminderStatus.CANCELLED,
    retirementId,
    ReminderStatus.PENDING,
  ]);
}
