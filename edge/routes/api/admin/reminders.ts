import { Type } from 'typebox';
import { type Reminder, ReminderPoint, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';
import { isoTime, paginationJson } from '../../../http/json.ts';
import { pageQuerySchema, type Routes } from '../../routes.ts';
import { modelNameSchema, onBehalfOfOperator, operatorOnly } from './catalog-fields.ts';

const statuses = {
  pending: ReminderStatus.PENDING,
  sent: ReminderStatus.SENT,
  failed: ReminderStatus.FAILED,
  cancelled: ReminderStatus.CANCELLED,
} as const;

/** GET /api/v1/admin/reminders: who is told of which retirement, and who was. */
export const adminReminderRoutes: Routes = (app, { models }) => {
  app.get(
    '/api/v1/admin/reminders',
    {
      config: operatorOnly,
      schema: {
        querystring: Type.Object({
          ...pageQuerySchema,
          model: Type.Optional(modelNameSchema),
          status: Type.Optional(
            Type.Union([
              Type.Literal('pending'),
              Type.Literal('sent'),
              Type.Literal('failed'),
              Type.Literal('cancelled'),
            ]),
          ),
        }),
      },
    },
    async (request) => {
      const { page, limit, model, status } = request.query;
      const answer = await models.listReminders(
        {
          page: { page, limit },
          model: model ?? '',
          status: status === undefined ? ReminderStatus.UNSPECIFIED : statuses[status],
        },
        onBehalfOfOperator(request),
      );
      return { data: answer.reminders.map(reminderJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};

const nameOf = (values: Readonly<Record<string, number>>, value: number): string =>
  (Object.keys(values).find((name) => values[name] === value) ?? 'UNSPECIFIED').toLowerCase();

const reminderJson = (reminder: Reminder) => ({
  id: reminder.id,
  retirement_id: reminder.retirementId,
  model: reminder.model,
  user_id: reminder.userId,
  email: reminder.email,
  point: nameOf(ReminderPoint, reminder.point),
  status: nameOf(ReminderStatus, reminder.status),
  due_at: isoTime(reminder.dueAt),
  sent_at: isoTime(reminder.sentAt),
  attempts: reminder.attempts,
  last_error: reminder.lastError || null,
  subject: reminder.subject || null,
  text: reminder.text || null,
});
