import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { CallOptions, Client } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { User } from '#gen/modelgateway/auth/v1/user_pb.ts';
import { Visibility } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ReminderPoint, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, type GatewayError, hasReason } from '#shared/errors.ts';
import type { Logger } from '#shared/logger.ts';
import { messageOf } from '#shared/message-of.ts';
import { asService } from '#shared/rpc/caller.ts';
import {
  addReminders,
  type DuePoint,
  findDuePoints,
  findTold,
  holdDuePoint,
  type PendingReminder,
  settleReminders,
  takePending,
} from '../db/reminder.repository.ts';
import { reminderMail } from '../domain/reminder-mail.ts';
import { staleAtMs } from '../domain/reminder-points.ts';
import { dedupeKey } from './dedupe-key.ts';
import { eachByItself } from './each-by-itself.ts';
import { type RecipientDeps, recipients, toldRecipients } from './recipients.ts';

export type ReminderDeps = Omit<RecipientDeps, 'auth'> & {
  auth: Pick<Client<typeof AuthService>, 'listActiveUsers' | 'getUsers' | 'sendMail' | 'withdrawMail'>;
  database: ServiceDatabase;
  clock: Clock;
  logger: Logger;
  /** Origin of the link in mails, without a trailing slash. */
  publicUrl: string;
};

/** Mails per hand-over; each hand-over is a transaction. */
const batch = 200;
/** In milliseconds; shorter than anybody who moves a date is willing to wait, and three times that is shorter than a transaction may idle. */
const sendTimeoutMs = 3_000;

/** From when on the mails of a point would say nothing new, or nothing true. */
const expiresAtMs = ({ point, schedule, dueAt }: DuePoint): number =>
  staleAtMs(point, point === ReminderPoint.WITHDRAWAL ? dueAt.getTime() : schedule.sunsetAtMs!);

/**
 * Hands the mails of every due point to Auth's outbox. May be interrupted anywhere and run by several processes: each reminder is a row of
 * its own, the outbox takes each dedupe key once, and what is left is found again.
 */
export async function sendDueReminders(deps: ReminderDeps, signal: AbortSignal): Promise<void> {
  const points = await findDuePoints(deps.database.pool, new Date(deps.clock.now()));
  await eachByItself(points, signal, (due) =>
    expiresAtMs(due) <= deps.clock.now() ? skip(deps, due) : sendPoint(deps, due, signal),
  );
}

/** Skips a point whose statement is no longer true, or about which a later point says more, unless its date was moved meanwhile. */
async function skip({ database, clock, logger }: ReminderDeps, found: DuePoint): Promise<void> {
  const { retirementId, point, model } = found;
  const isSkipped = await sqlTransaction(database, async (client) => {
    const nowMs = clock.now();
    const due = await holdDuePoint(client, found, new Date(nowMs));
    if (due === null || expiresAtMs(due) > nowMs) return false;
    await client.query('update reminder_points set due_at = null where retirement_id = $1 and point = $2', [
      retirementId,
      point,
    ]);
    await client.query('update reminders set status = $3 where retirement_id = $1 and point = $2 and status = $4', [
      retirementId,
      point,
      ReminderStatus.CANCELLED,
      ReminderStatus.PENDING,
    ]);
    return true;
  });
  if (isSkipped) logger.warn({ model, point }, 'the emails of a retirement are too late and are not sent');
}

async function sendPoint(deps: ReminderDeps, due: DuePoint, signal: AbortSignal): Promise<void> {
  const { database, clock } = deps;
  const now = new Date(clock.now());
  for await (const users of await usersOf(deps, due, now, signal)) {
    const isDue = await sqlTransaction(database, async (client) => {
      const held = await holdDuePoint(client, due, now);
      if (held !== null) await addReminders(client, held, users);
      return held !== null;
    });
    if (!isDue || signal.aborted) return;
  }
  while (!signal.aborted) {
    const left = await handOver(deps, due);
    if (left === 'none') return;
  }
}

const usersOf = async (
  deps: ReminderDeps,
  due: DuePoint,
  now: Date,
  signal: AbortSignal,
): Promise<AsyncIterable<readonly User[]>> => {
  const granted = await grantedTo(deps, due);
  return due.point === ReminderPoint.WITHDRAWAL
    ? toldRecipients(deps, (after, limit) => findTold(deps.database.pool, due, after, limit), granted, signal)
    : recipients(deps, { name: due.model, grantedTo: granted }, now.getTime(), signal);
};

/** The organizations that may know of the model; null: all. */
async function grantedTo({ database }: ReminderDeps, due: DuePoint): Promise<ReadonlySet<string> | null> {
  if (due.visibility === Visibility.PUBLIC) return null;
  const { rows } = await database.query<{ tenant_id: string }>({
    text: 'select tenant_id from grants where model_id = $1',
    values: [due.modelId],
  });
  return new Set(rows.map(({ tenant_id }) => tenant_id));
}

/** Hands one batch over; the point is done when a batch finds nobody left. */
async function handOver(deps: ReminderDeps, { retirementId, point }: DuePoint): Promise<'none' | 'some'> {
  const { database, clock } = deps;
  const now = new Date(clock.now());
  let taken: readonly PendingReminder[] = [];
  try {
    return await sqlTransaction(database, async (client) => {
      const due = await holdDuePoint(client, { retirementId, point }, now);
      if (due === null) return 'none';
      taken = await takePending(client, due, batch);
      if (taken.length === 0) {
        await client.query('update reminder_points set done_at = $3 where retirement_id = $1 and point = $2', [
          retirementId,
          point,
          now,
        ]);
        return 'none';
      }
      const { model, schedule, visibility } = due;
      const isPublic = visibility === Visibility.PUBLIC;
      const mail = reminderMail({ model, isPublic, schedule, point, publicUrl: deps.publicUrl });
      const { accepted, refused } = await send(deps, due, mail, taken);
      await settleReminders(client, accepted, { status: ReminderStatus.SENT, at: now, ...mail });
      for (const [id, error] of refused) {
        await settleReminders(client, [id], { status: ReminderStatus.FAILED, at: now, ...mail, error });
      }
      return 'some';
    });
  } catch (error) {
    await database.query({
      text: 'update reminders set attempts = attempts + 1, last_error = $2 where id = any($1) and status = $3',
      values: [taken.map(({ id }) => id), messageOf(error).slice(0, 1_000), ReminderStatus.PENDING],
    });
    throw error;
  }
}

/**
 * Puts mails into Auth's outbox, in time for the transaction: if they have to go one by one, perhaps only the first of them. Returns the
 * reminders that it accepted, and those that it never will, with the reasons.
 */
async function send(
  { auth, clock }: ReminderDeps,
  due: DuePoint,
  mail: { subject: string; text: string; html: string },
  reminders: readonly PendingReminder[],
): Promise<{ accepted: readonly string[]; refused: ReadonlyMap<string, string> }> {
  const options: CallOptions = { ...asService('models'), timeoutMs: sendTimeoutMs };
  const expiresAt = timestampFromMs(expiresAtMs(due));
  const mails = reminders.map(({ userId, email }) => ({
    dedupeKey: dedupeKey(due.retirementId, due.point, userId),
    kind: 'model_retirement',
    toEmail: email,
    toUserId: userId,
    ...mail,
    expiresAt,
  }));
  const accepted: string[] = [];
  const refused = new Map<string, string>();
  try {
    await auth.sendMail({ mails }, options);
    return { accepted: reminders.map(({ id }) => id), refused };
  } catch (error) {
    if (!isRefusal(error)) throw error;
  }
  const untilMs = clock.monotonic() + sendTimeoutMs;
  // One bad address must not hold up the others.
  for (const [index, { id }] of reminders.entries()) {
    if (index > 0 && clock.monotonic() >= untilMs) break;
    try {
      await auth.sendMail({ mails: [mails[index]!] }, options);
      accepted.push(id);
    } catch (reason) {
      if (!isRefusal(reason)) throw reason;
      refused.set(id, reason.message);
    }
  }
  return { accepted, refused };
}

const isRefusal = (error: unknown): error is GatewayError => hasReason(error, ErrorReason.INVALID_REQUEST);
