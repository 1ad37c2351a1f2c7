/** Sums over calls without money, and what the performance of calls is reckoned by. */
export type Volume = {
  requests: bigint;
  successfulRequests: bigint;
  inputTokens: bigint;
  outputTokens: bigint;
  cachedInputTokens: bigint;
  /** Calls with at least one cached prompt token. */
  cacheHits: bigint;
  /** Calls with prompt tokens of which none was cached. */
  cacheMisses: bigint;
  /** Milliseconds of the calls which gave output tokens. */
  generatingMs: bigint;
};

export const noVolume = (): Volume => ({
  requests: 0n,
  successfulRequests: 0n,
  inputTokens: 0n,
  outputTokens: 0n,
  cachedInputTokens: 0n,
  cacheHits: 0n,
  cacheMisses: 0n,
  generatingMs: 0n,
});

/** Adds to `total` in place, or with -1 takes from it. */
export function addVolume(total: Volume, volume: Volume, sign: 1n | -1n = 1n): void {
  total.requests += sign * volume.requests;
  total.successfulRequests += sign * volume.successfulRequests;
  total.inputTokens += sign * volume.inputTokens;
  total.outputTokens += sign * volume.outputTokens;
  total.cachedInputTokens += sign * volume.cachedInputTokens;
  total.cacheHits += sign * volume.cacheHits;
  total.cacheMisses += sign * volume.cacheMisses;
  total.generatingMs += sign * volume.generatingMs;
}
