import { defineEntity, type InferEntity, p } from '@mikro-orm/postgresql';
import type { ReminderPoint, ReminderStatus } from '#gen/modelgateway/models/v1/reminder_pb.ts';

export const RetirementEntity = defineEntity({
  name: 'Retirement',
  tableName: 'retirements',
  properties: {
    id: p.uuid().primary(),
    modelId: p.uuid(),
    deprecatedAt: p.datetime(),
    sunsetAt: p.datetime().strictNullable(),
    replacementModelName: p.text().strictNullable(),
    retirementNote: p.text().strictNullable(),
    withdrawnAt: p.datetime().strictNullable(),
    recallsMails: p.boolean().default(false),
  },
});

export const ReminderEntity = defineEntity({
  name: 'Reminder',
  tableName: 'reminders',
  properties: {
    id: p.uuid().primary(),
    retirementId: p.uuid(),
    point: p.smallint().$type<ReminderPoint>(),
    userId: p.uuid(),
    email: p.text(),
    status: p.smallint().$type<ReminderStatus>(),
    dueAt: p.datetime(),
    sentAt: p.datetime().strictNullable(),
    attempts: p.integer().default(0),
    lastError: p.text().default(''),
    subject: p.text().default(''),
    text: p.text().default(''),
  },
});

export type RetirementRow = InferEntity<typeof RetirementEntity>;
export type ReminderRow = InferEntity<typeof ReminderEntity>;
