/** Room for one call in every budget that limits it. `settle` is called exactly once, with what the call cost. */
export type Hold = {
  /** The leases that hold the call's cost; recorded in its usage event. */
  readonly leaseIds: readonly string[];
  /** The most that the call may cost, if less than was asked for; null: what was asked for. */
  readonly costAllowedNanoUsd: bigint | null;
  /** Jobs has held it since the job's submission. After a failure it is not settled: Jobs calls again under it, or gives it back. */
  readonly isOfJob?: true;
  /**
   * Gives back what the call did not cost. Returns a promise only near a limit: it resolves once Billing knows, so that the caller's next
   * request, at whichever edge, is not refused for room that this one no longer needs. It never rejects.
   */
  settle(costNanoUsd: bigint): Promise<void> | undefined;
};

/** For callers without any limit, and for calls that cost nothing. */
export const freeHold: Hold = { leaseIds: [], costAllowedNanoUsd: null, settle: () => undefined };
