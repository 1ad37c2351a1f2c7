import type { ReminderPoint } from '#gen/modelgateway/models/v1/reminder_pb.ts';

/** What the dedupe keys of all mails of a retirement begin with, and no others: by it they are taken back. */
export const dedupePrefix = (retirementId: string): string => `retirement ${retirementId} `;

/** By it Auth takes a mail only once. */
export const dedupeKey = (retirementId: string, point: ReminderPoint, userId: string): string =>
  `${dedupePrefix(retirementId)}${point} ${userId}`;

/** Whose mail of which point has a dedupe key. */
export function readDedupeKey(retirementId: string, key: string): { point: ReminderPoint; userId: string } {
  const [point, userId] = key.slice(dedupePrefix(retirementId).length).split(' ') as [string, string];
  return { point: Number(point) as ReminderPoint, userId };
}
