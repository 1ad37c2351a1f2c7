import pLimit, { type LimitFunction } from 'p-limit';

/** Does work when it is the turn of its name; `waiting` is how many wait for it already. */
export type TurnsByName = {
  run<Result>(name: string, work: () => Promise<Result>): Promise<Result>;
  waiting(name: string): number;
};

/** So many at the same time of each name, whether those before succeeded or not; the others wait in the order in which they came. */
export function turnsByName(atOnce: number): TurnsByName {
  const limits = new Map<string, LimitFunction>();
  return {
    async run(name, work) {
      const limit = limits.get(name) ?? pLimit(atOnce);
      limits.set(name, limit);
      try {
        return await limit(work);
      } finally {
        if (limit.activeCount + limit.pendingCount === 0) limits.delete(name);
      }
    },
    waiting: (name) => limits.get(name)?.pendingCount ?? 0,
  };
}
