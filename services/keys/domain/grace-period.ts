/**
 * Until when an earlier secret of a key is valid once another took its place: until the end of the grace period, or until
 * `expiresAt`, when it would have ended anyway. Null: it ends at once, as every earlier secret does when no grace is given.
 */
export function graceEnd(expiresAt: Date | null, gracePeriodMs: number, nowMs: number): Date | null {
  if (gracePeriodMs <= 0) return null;
  const endMs = nowMs + gracePeriodMs;
  return new Date(expiresAt === null ? endMs : Math.min(expiresAt.getTime(), endMs));
}
