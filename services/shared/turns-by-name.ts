import pLimit, { type LimitFunction } from 'p-limit';
import { ErrorReason, gatewayError } from './errors.ts';

export type TurnsByName = {
  /**
   * Does work when it is its name's turn, unless `signal` has aborted by then: nobody waits for it any more. `isBegun`: it goes on with what
   * a refusal would break off, and is not refused.
   */
  run<Result>(name: string, signal: AbortSignal, work: () => Promise<Result>, isBegun?: boolean): Promise<Result>;
};

/** How many of one name may wait, and what to call them in the error of those beyond that, who fail with RATE_LIMITED. */
type Waiting = { max: number; what: string };

/** Runs this many at a time for each name, whether earlier ones succeeded or not; the others wait in order of arrival. */
export function turnsByName(atOnce: number, waiting?: Waiting): TurnsByName {
  const limits = new Map<string, LimitFunction>();
  return {
    async run(name, signal, work, isBegun = false) {
      const limit = limits.get(name) ?? pLimit(atOnce);
      if (waiting !== undefined && !isBegun && limit.pendingCount >= waiting.max) {
        throw gatewayError(ErrorReason.RATE_LIMITED, `Too many ${waiting.what} are waiting. Try again in 1 s.`, {
          retryAfterMs: 1_000,
        });
      }
      limits.set(name, limit);
      try {
        return await limit(async () => {
          signal.throwIfAborted();
          return work();
        });
      } finally {
        if (limit.activeCount + limit.pendingCount === 0) limits.delete(name);
      }
    },
  };
}
