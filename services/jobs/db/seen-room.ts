import type { Clock } from '#shared/clock.ts';

/** For how long an organization that had room for more jobs is taken to have it, in milliseconds. */
const seenMs = 1_000;
/** So that organizations without new jobs take no memory. */
const organizationsMax = 10_000;

/**
 * The organizations that had room for more jobs a moment ago: counting what waits at each submission takes milliseconds if much does.
 */
export class SeenRoom {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #seenMs = new Map<string, number>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  has(tenantId: string): boolean {
    return this.#clock.monotonic() - (this.#seenMs.get(tenantId) ?? Number.NEGATIVE_INFINITY) < seenMs;
  }

  add(tenantId: string): void {
    if (this.#seenMs.size >= organizationsMax) this.#seenMs.clear();
    this.#seenMs.set(tenantId, this.#clock.monotonic());
  }
}
