import { type Static, Type } from 'typebox';
import { type Reminder, ReminderPoint, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { idSchema, isoTime, isoTimeSchema, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { spelling } from '../../../http/spelling.ts';
import { modelNameSchema } from './catalog-fields.ts';

export const reminderPoints = spelling({
  announcement: ReminderPoint.ANNOUNCEMENT,
  thirty_days: ReminderPoint.THIRTY_DAYS,
  seven_days: ReminderPoint.SEVEN_DAYS,
  one_day: ReminderPoint.ONE_DAY,
  retirement_day: ReminderPoint.RETIREMENT_DAY,
  withdrawal: ReminderPoint.WITHDRAWAL,
});
export const reminderStatuses = spelling({
  pending: ReminderStatus.PENDING,
  sent: ReminderStatus.SENT,
  failed: ReminderStatus.FAILED,
  cancelled: ReminderStatus.CANCELLED,
});

/** GET /api/v1/admin/reminders: who will be told of which retirement, and who has been. */
export const adminReminderRoutes: Routes = (app, { models }) => {
  app.get(
    '/api/v1/admin/reminders',
    {
      config: operatorOnly,
      schema: {
        summary: 'List reminders',
        description: 'Emails about retirements, latest due time first.',
        response: { 200: pageOf(reminderSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          model: Type.Optional(modelNameSchema),
          status: Type.Optional(reminderStatuses.schema),
        }),
      },
    },
    async (request) => {
      const { page, limit, model, status } = request.query;
      const answer = await models.listReminders(
        { page: { page, limit }, model, status: reminderStatuses.value(status) },
        asCaller(request),
      );
      return { data: answer.reminders.map(reminderJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};

export const reminderSchema = Type.Object(
  {
    id: idSchema,
    retirement_id: idSchema,
    model: Type.String(),
    user_id: idSchema,
    email: Type.String(),
    point: reminderPoints.schema,
    status: reminderStatuses.schema,
    due_at: isoTimeSchema,
    sent_at: orNull(Type.String({ format: 'date-time', description: 'When it was put into the outbox.' })),
    attempts: Type.Integer(),
    last_error: orNull(Type.String()),
    subject: orNull(Type.String()),
    text: orNull(Type.String()),
  },
  { $id: 'Reminder' },
);
export const reminderJson = (reminder: Reminder): Static<typeof reminderSchema> => ({
  id: reminder.id,
  retirement_id: reminder.retirementId,
  model: reminder.model,
  user_id: reminder.userId,
  email: reminder.email,
  point: reminderPoints.name(reminder.point),
  status: reminderStatuses.name(reminder.status),
  due_at: isoTime(reminder.dueAt!),
  sent_at: isoTime(reminder.sentAt),
  attempts: reminder.attempts,
  last_error: reminder.lastError || null,
  subject: reminder.subject || null,
  text: reminder.text || null,
});
