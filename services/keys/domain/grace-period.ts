import { ErrorReason, gatewayError } from '#shared/errors.ts';

/** Each change of a key costs Keys and each edge in proportion to its number of secrets times the addresses it allows. */
const secretsMax = 5;

/** Refuses to add a secret if too many are valid. None is ended before the time that was promised for it. */
export function requireRoomForSecret(live: readonly { expiresAt: Date | null }[]): void {
  if (live.length < secretsMax) return;
  const ends = live.flatMap(({ expiresAt }) => (expiresAt === null ? [] : [expiresAt.getTime()]));
  throw gatewayError(
    ErrorReason.CONFLICT,
    `This key has ${live.length} valid secrets, and ${secretsMax} is the maximum. The next one ends at ${new Date(Math.min(...ends)).toISOString()}: rotate the key after that, or without a grace period, which ends them all.`,
  );
}

/**
 * Until when an earlier secret of a key is valid after a rotation: until the end of the grace period, or until `expiresAt` if it ends
 * sooner anyway. Null: it ends at once, as every earlier secret does without a grace period.
 */
export function graceEnd(expiresAt: Date | null, gracePeriodMs: number, nowMs: number): Date | null {
  if (gracePeriodMs <= 0) return null;
  const endMs = nowMs + gracePeriodMs;
  return new Date(expiresAt === null ? endMs : Math.min(expiresAt.getTime(), endMs));
}
