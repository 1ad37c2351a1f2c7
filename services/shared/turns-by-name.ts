import pLimit, { type LimitFunction } from 'p-limit';
import { ErrorReason, gatewayError } from './errors.ts';

/** Does work when it is the turn of its name. */
export type TurnsByName = { run<Result>(name: string, work: () => Promise<Result>): Promise<Result> };

/** How many of one name may wait, and what they are, for those who come behind them: they fail with RATE_LIMITED. */
type Waiting = { max: number; what: string };

/** So many at the same time of each name, whether those before succeeded or not; the others wait in the order in which they came. */
export function turnsByName(atOnce: number, waiting?: Waiting): TurnsByName {
  const limits = new Map<string, LimitFunction>();
  return {
    async run(name, work) {
      const limit = limits.get(name) ?? pLimit(atOnce);
      if (waiting !== undefined && limit.pendingCount >= waiting.max) {
        throw gatewayError(ErrorReason.RATE_LIMITED, `Too many ${waiting.what} wait. Try again in 1 s.`, {
          retryAfterMs: 1_000,
        });
      }
      limits.set(name, limit);
      try {
        return await limit(work);
      } finally {
        if (limit.activeCount + limit.pendingCount === 0) limits.delete(name);
      }
    },
  };
}
