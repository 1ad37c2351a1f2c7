import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { ListRemindersResponseSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { type Reminder, ReminderSchema, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { ModelEntity } from '../db/catalog.entities.ts';
import { ReminderEntity, type ReminderRow, RetirementEntity } from '../db/retirement.entities.ts';
import type { ModelsDeps, ModelsRpc } from '../deps.ts';

export const listReminders =
  ({ database }: Pick<ModelsDeps, 'database'>): ModelsRpc<'listReminders'> =>
  async ({ page, model, status }, context) => {
    operatorCaller(context);
    const em = database.em();
    const rows = pageRows(page);
    const [reminders, total] = await em.findAndCount(
      ReminderEntity,
      {
        // Without a model they are not asked for by retirement: an index has them in the order of the list.
        ...(model !== '' && { retirementId: { $in: await retirementsOf(em, model) } }),
        ...(status !== ReminderStatus.UNSPECIFIED && { status }),
      },
      { orderBy: { dueAt: 'desc', id: 'desc' }, limit: rows.limit, offset: rows.offset },
    );
    const modelOf = await modelNames(em, new Set(reminders.map(({ retirementId }) => retirementId)));
    return create(ListRemindersResponseSchema, {
      reminders: reminders.map((row) => reminderMessage(row, modelOf.get(row.retirementId)!)),
      pageInfo: pageInfo(rows, total),
    });
  };

/** The retirements of all models that ever bore a name. */
async function retirementsOf(em: SqlEntityManager, name: string): Promise<string[]> {
  const models = await em.find(ModelEntity, { name });
  const retirements = await em.find(RetirementEntity, { modelId: { $in: models.map(({ id }) => id) } });
  return retirements.map(({ id }) => id);
}

/** The names of the models that retire, by their retirements. */
async function modelNames(em: SqlEntityManager, retirementIds: ReadonlySet<string>): Promise<Map<string, string>> {
  const retirements = await em.find(RetirementEntity, { id: { $in: [...retirementIds] } });
  const models = await em.find(ModelEntity, { id: { $in: retirements.map(({ modelId }) => modelId) } });
  const names = new Map(models.map(({ id, name }) => [id, name]));
  return new Map(retirements.map(({ id, modelId }) => [id, names.get(modelId)!]));
}

const reminderMessage = (row: ReminderRow, model: string): Reminder =>
  create(ReminderSchema, {
    id: row.id,
    retirementId: row.retirementId,
    model,
    userId: row.userId,
    email: row.email,
    point: row.point,
    status: row.status,
    dueAt: timestampFromDate(row.dueAt),
    sentAt: timestampOrUnset(row.sentAt),
    attempts: row.attempts,
    lastError: row.lastError,
    subject: row.subject,
    text: row.text,
  });
