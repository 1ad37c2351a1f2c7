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

/** Adds to `total` in place. */
export function addVolume(total: Volume, volume: Volume): void {
  total.requests += volume.requests;
  total.successfulRequests += volume.successfulRequests;
  total.inputTokens += volume.inputTokens;
  total.outputTokens += volume.outputTokens;
  total.cachedInputTokens += volume.cachedInputTokens;
  total.cacheHits += volume.cacheHits;
  total.cacheMisses += volume.cacheMisses;
  total.generatingMs += volume.generatingMs;
}
