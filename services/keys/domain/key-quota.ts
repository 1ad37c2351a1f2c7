import { ErrorReason, gatewayError } from '#shared/errors.ts';

/** Keys per user when the organization has no quota of its own (service.md, Limits). */
const keysPerUserDefault = 10;

/** How many keys each user of an organization may have, as stored: undefined is the default, null is unlimited. */
export type StoredQuota = number | null | undefined;

/** How many keys a user may have, given what is stored; null is unlimited. */
export const effectiveQuota = (stored: StoredQuota): number | null =>
  stored === undefined ? keysPerUserDefault : stored;

/** Refuses another key when the user has as many undeleted ones as the quota allows; null is unlimited. */
export function requireQuota(undeletedKeys: number, keysPerUser: number | null): void {
  if (keysPerUser === null || undeletedKeys < keysPerUser) return;
  throw gatewayError(
    ErrorReason.KEY_QUOTA_EXCEEDED,
    `You have reached your organization's limit of ${keysPerUser} API keys per user. Delete a key you no longer need, or ask for a higher limit.`,
  );
}
