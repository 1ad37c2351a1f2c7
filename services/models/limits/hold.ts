/** Room for one call in every budget that limits it. `settle` is called exactly once, with what the call cost. */
export type Hold = {
  /** The leases which hold the call's cost; they stand on its usage event. */
  readonly leaseIds: readonly string[];
  /** What the call may cost, when that is less than asked for; null: nothing beyond what was asked limits it. */
  readonly costAllowedNanoUsd: bigint | null;
  /**
   * Gives back what the call did not cost. A promise near a limit only: it resolves once Billing knows, so that the caller's next
   * request, at whichever edge, is not refused for room that this one no longer needs. It never rejects.
   */
  settle(costNanoUsd: bigint): Promise<void> | undefined;
};

/** Of callers whom nothing limits, and of calls that cost nothing. */
export const freeHold: Hold = { leaseIds: [], costAllowedNanoUsd: null, settle: () => undefined };
