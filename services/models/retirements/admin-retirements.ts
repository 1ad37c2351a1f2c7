import { create } from '@bufbuild/protobuf';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { type AdminRetirement, AdminRetirementSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { type ReminderPoint, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { plainArray } from '#shared/db/sql.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import { ModelEntity } from '../db/catalog.entities.ts';
import type { RetirementRow } from '../db/retirement.entities.ts';
import { retirementMessage } from '../db/retirement.repository.ts';

type Point = { retirement_id: string; point: ReminderPoint; due_at: string | null; done_at: string | null };
type Counts = { retirement_id: string; status: ReminderStatus; count: string };

/** Retirements as operators see them, with what became of their mails. */
export async function adminRetirements(
  em: SqlEntityManager,
  rows: readonly RetirementRow[],
): Promise<AdminRetirement[]> {
  if (rows.length === 0) return [];
  const models = await em.find(ModelEntity, { id: { $in: rows.map(({ modelId }) => modelId) } });
  const names = new Map(models.map(({ id, name }) => [id, name]));
  const ids = plainArray(rows.map(({ id }) => id));
  const counts = await em.execute<Counts[]>(
    'select retirement_id, status, count(*) as count from reminders where retirement_id = any(?::uuid[]) group by 1, 2',
    [ids],
  );
  const points = await em.execute<Point[]>(
    'select retirement_id, point, due_at, done_at from reminder_points where retirement_id = any(?::uuid[]) order by point',
    [ids],
  );
  const count = (id: string, status: ReminderStatus): bigint =>
    BigInt(counts.find((row) => row.retirement_id === id && row.status === status)?.count ?? 0);
  return rows.map((row) =>
    create(AdminRetirementSchema, {
      id: row.id,
      model: names.get(row.modelId) ?? '',
      retirement: retirementMessage(row),
      withdrawnAt: timestampOrUnset(row.withdrawnAt),
      remindersSent: count(row.id, ReminderStatus.SENT),
      remindersPending: count(row.id, ReminderStatus.PENDING),
      recallsReminders: row.recallsMails,
      points: points
        .filter(({ retirement_id }) => retirement_id === row.id)
        .map(({ point, due_at, done_at }) => ({
          point,
          dueAt: timeOf(due_at),
          doneAt: timeOf(done_at),
        })),
    }),
  );
}

const timeOf = (text: string | null) => timestampOrUnset(text === null ? null : new Date(text));

export const adminRetirement = async (em: SqlEntityManager, row: RetirementRow): Promise<AdminRetirement> =>
  (await adminRetirements(em, [row]))[0]!;
