import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ReminderPoint, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { RetirementEntity, type RetirementRow } from '../db/retirement.entities.ts';
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
  if (!isFirstDate) await requestRecall(em, retirement);
  // Cancelled: an outage lasted until they were too late for the former date.
  await em.execute('delete from reminders where retirement_id = ? and status in (?, ?)', [
    retirement.id,
    ReminderStatus.PENDING,
    ReminderStatus.CANCELLED,
  ]);
  for (const { point, dueAtMs } of reminderPlan(retirement.sunsetAt!.getTime(), now.getTime(), isFirstDate)) {
    await em.execute(
      `insert into reminder_points (retirement_id, point, due_at) values (?, ?, ?)
       on conflict (retirement_id, point) do update set due_at = excluded.due_at`,
      [retirement.id, point, dueAtMs === null ? null : new Date(dueAtMs)],
    );
  }
}

/**
 * Cancels what was not sent yet, and plans that users who were sent something are told that the model stays, in the transaction of a
 * withdrawal.
 */
export async function planWithdrawalMails(em: SqlEntityManager, retirement: RetirementRow, now: Date): Promise<void> {
  await cancelMails(em, retirement);
  await em.execute('insert into reminder_points (retirement_id, point, due_at) values (?, ?, ?)', [
    retirement.id,
    ReminderPoint.WITHDRAWAL,
    now,
  ]);
}

/** Takes back that a model stays, in the transaction in which it is deleted or its retirement is announced anew. */
export async function cancelWithdrawalMails(em: SqlEntityManager, modelId: string): Promise<void> {
  const withdrawn = { modelId, withdrawnAt: { $ne: null } };
  const last = await em.findOne(RetirementEntity, withdrawn, { orderBy: { withdrawnAt: 'desc', id: 'desc' } });
  if (last === null) return;
  await cancelMails(em, last);
  await em.execute('update reminder_points set due_at = null where retirement_id = ? and point = ?', [
    last.id,
    ReminderPoint.WITHDRAWAL,
  ]);
}

async function cancelMails(em: SqlEntityManager, retirement: RetirementRow): Promise<void> {
  await requestRecall(em, retirement);
  await em.execute('update reminders set status = ? where retirement_id = ? and status = ?', [
    ReminderStatus.CANCELLED,
    retirement.id,
    ReminderStatus.PENDING,
  ]);
}

/** Has the worker take back what waits in Auth's outbox (recall-mails.ts). */
async function requestRecall(em: SqlEntityManager, retirement: RetirementRow): Promise<void> {
  // Whatever the entity says: the worker may be done with an earlier change.
  await em.execute('update retirements set recalls_mails = true where id = ?', [retirement.id]);
  retirement.recallsMails = true;
}
