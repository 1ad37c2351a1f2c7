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
  const allowed = `${keysPerUser} API ${keysPerUser === 1 ? 'key' : 'keys'}`;
  const surplus = undeletedKeys - keysPerUser + 1;
  const ask =
    keysPerUser === 0
      ? 'Ask for a higher limit.'
      : `Delete ${surplus === 1 ? 'one' : surplus} that you no longer need, or ask for a higher limit.`;
  throw gatewayError(
    ErrorReason.KEY_QUOTA_EXCEEDED,
    `Your organization allows each user ${allowed}, and you have ${undeletedKeys}. ${ask}`,
  );
}
