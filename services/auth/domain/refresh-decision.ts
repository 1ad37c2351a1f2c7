/** How long the immediate predecessor of a refresh token still gets the same pair, in milliseconds (decisions.md, Auth). */
const predecessorGraceMs = 10_000;

/** The part of a session that decides about a refresh token. */
type RefreshFamily = {
  currentHash: Uint8Array;
  previousHash: Uint8Array | null;
  /** How long ago the predecessor was spent; negative if the clock was set back since. */
  rotatedAgoMs: number | null;
  endedAtMs: number | null;
  expiresAtMs: number;
};

/**
 * - `rotate`: it is the current token, and is spent for the next pair;
 * - `repeat`: it is the immediate predecessor, shown again within the grace: two tabs, or a lost answer;
 * - `reuse`: it is ours but was spent earlier: somebody has a copy, and nobody can tell who;
 * - `refuse`: the session is over.
 */
type RefreshDecision = 'rotate' | 'repeat' | 'reuse' | 'refuse';

/** Decides on a refresh token that this gateway signed for the session. */
export function decideRefresh(family: RefreshFamily, hash: Uint8Array, nowMs: number): RefreshDecision {
  if (family.endedAtMs !== null || family.expiresAtMs <= nowMs) return 'refuse';
  if (Buffer.compare(hash, family.currentHash) === 0) return 'rotate';
  const isPrevious = family.previousHash !== null && Buffer.compare(hash, family.previousHash) === 0;
  const inGrace = family.rotatedAgoMs !== null && Math.abs(family.rotatedAgoMs) < predecessorGraceMs;
  return isPrevious && inGrace ? 'repeat' : 'reuse';
}
