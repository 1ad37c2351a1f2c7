import { ErrorReason, gatewayError } from '#shared/errors.ts';

/** Every change of a key costs Keys and each edge as much as it has secrets times the addresses that it allows. */
const secretsMax = 5;

/** Refuses to add a secret to those that are valid now. None is ended before the moment that was answered for it. */
export function requireRoomForSecret(live: readonly { expiresAt: Date | null }[]): void {
  if (live.length < secretsMax) return;
  const ends = live.flatMap(({ expiresAt }) => (expiresAt === null ? [] : [expiresAt.getTime()]));
  throw gatewayError(
    ErrorReason.CONFLICT,
    `This key has ${live.length} secrets that are valid, and may have ${secretsMax}: the next one ends at ${new Date(Math.min(...ends)).toISOString()}. Rotate it then, or without a grace period, which ends them all.`,
  );
}

/**
 * Until when an earlier secret of a key is valid once another took its place: until the end of the grace period, or until
 * `expiresAt`, when it would have ended anyway. Null: it ends at once, as every earlier secret does when no grace is given.
 */
export function graceEnd(expiresAt: Date | null, gracePeriodMs: number, nowMs: number): Date | null {
  if (gracePeriodMs <= 0) return null;
  const endMs = nowMs + gracePeriodMs;
  return new Date(expiresAt === null ? endMs : Math.min(expiresAt.getTime(), endMs));
}
