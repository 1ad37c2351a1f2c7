/** How the sandbox misbehaves, for trying, testing and load. Without knobs it answers at once and never fails. */
export type SandboxKnobs = {
  /** Milliseconds until the response head. */
  latencyMs?: number;
  /** Milliseconds between two pieces of a body. */
  chunkDelayMs?: number;
  /** The share of requests that fail with a 500, 0 to 1. They fail at even distances, not at random: 0.25 fails each fourth. */
  errorRate?: number;
  /** Breaks the connection after so many pieces of a body. */
  cutAfterChunks?: number;
};

/** Counts requests: answers true for those that fail, by `errorRate`. */
export function failureCounter(errorRate = 0): () => boolean {
  let debt = 0;
  return () => {
    debt += errorRate;
    // 0.1 + … + 0.1 is a little less than 1.
    if (debt <= 1 - 1e-9) return false;
    debt -= 1;
    return true;
  };
}
