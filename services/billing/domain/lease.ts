import { larger, smaller } from './amounts.ts';

/*
 * Room in budgets (design.md, Snapshots). A budget admits while posted + held < limit. Far from the limit a holder gets a slice: within it,
 * and never beyond, it admits calls by itself. Near the limit each request gets a central hold of its own. So the limit is exceeded by at
 * most one request: the last that found posted + held below it.
 */

/** The state of a budget. `posted + held` may exceed the limit by one request. */
export type BudgetState = {
  limitNanoUsd: bigint;
  postedNanoUsd: bigint;
  heldNanoUsd: bigint;
  /** The part of the limit that ends before a lease given now: no slice is made of it, since its holder would not notice. */
  endingNanoUsd?: bigint;
};

export type LeaseTerms = { costMaxNanoUsd: bigint; costMinNanoUsd: bigint; sliceNanoUsd: bigint };

/** A slice is at most this part of what is left, so that several holders find room. */
const sliceDivisor = 8n;

/** A slice must hold at least this many times the requesting call, else every request would soon ask again. */
const sliceRequestsMin = 2n;

export const remainingIn = ({ limitNanoUsd, postedNanoUsd, heldNanoUsd }: BudgetState): bigint =>
  limitNanoUsd - postedNanoUsd - heldNanoUsd;

const lastingIn = (budget: BudgetState): bigint => remainingIn(budget) - (budget.endingNanoUsd ?? 0n);

/** The room granted to a demand; null when the budget has none. */
export function grantedRoom(budget: BudgetState, terms: LeaseTerms): { roomNanoUsd: bigint; central: boolean } | null {
  const remaining = remainingIn(budget);
  if (remaining <= 0n) return null;
  const { costMaxNanoUsd: costMax, costMinNanoUsd: costMin, sliceNanoUsd: wish } = terms;
  if (wish > 0n) {
    const slice = smaller(costMax + wish, lastingIn(budget) / sliceDivisor);
    if (slice > 0n && slice >= costMax * sliceRequestsMin) return { roomNanoUsd: slice, central: false };
  }
  // Without a minimum cost the request is worth running only whole: by itself it may exceed what is left.
  const least = costMin > 0n ? smaller(costMin, costMax) : costMax;
  return { roomNanoUsd: larger(least, smaller(costMax, remaining)), central: true };
}

/** How much of a slice its holder may keep free when it settles: less and less as the limit comes near, at last nothing. */
export function freeRoomToKeep(budget: BudgetState, freeNanoUsd: bigint): bigint {
  const remaining = lastingIn(budget);
  return remaining <= 0n ? 0n : smaller(freeNanoUsd, (remaining + freeNanoUsd) / sliceDivisor);
}

/** The amounts of a lease. `used` and `inFlight` are as last reported by the holder. */
export type LeaseAmounts = {
  roomNanoUsd: bigint;
  usedNanoUsd: bigint;
  inFlightNanoUsd: bigint;
  chargedNanoUsd: bigint;
};

/** What a lease occupies of its budget; charged amounts are posted instead. */
export const heldBy = ({ roomNanoUsd, chargedNanoUsd }: Pick<LeaseAmounts, 'roomNanoUsd' | 'chargedNanoUsd'>): bigint =>
  larger(roomNanoUsd - chargedNanoUsd, 0n);

/** A lease that its holder gives back: what was used, or may still be used, stays held until it is charged. */
export const closed = <Lease extends LeaseAmounts>(
  lease: Lease,
  usedNanoUsd: bigint,
  inFlightNanoUsd: bigint,
): Lease => ({
  ...lease,
  usedNanoUsd,
  inFlightNanoUsd,
  roomNanoUsd: usedNanoUsd + inFlightNanoUsd,
});

/** A lease whose holder vanished: what it is known to have used will be charged, everything else is free. */
export const lapsed = <Lease extends LeaseAmounts>(lease: Lease): Lease => ({
  ...lease,
  inFlightNanoUsd: 0n,
  roomNanoUsd: smaller(lease.roomNanoUsd, lease.usedNanoUsd),
});

/** A lease under which a call was charged. A central hold was only for this call, so it is free. */
export function charged<Lease extends LeaseAmounts & { central: boolean }>(lease: Lease, costNanoUsd: bigint): Lease {
  const chargedNanoUsd = lease.chargedNanoUsd + costNanoUsd;
  if (!lease.central) return { ...lease, chargedNanoUsd };
  return { ...lease, chargedNanoUsd, roomNanoUsd: chargedNanoUsd, usedNanoUsd: chargedNanoUsd, inFlightNanoUsd: 0n };
}
