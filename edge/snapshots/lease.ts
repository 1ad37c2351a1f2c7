import type { Clock } from '#shared/clock.ts';

/** A feed that says nothing for this long is broken; a heartbeat comes every 500 ms. In milliseconds. */
const silenceMsMax = 1_500;

/**
 * Whether the edge may decide by what a feed told. Each acknowledgement that the feed's service answers renews it, counted from the moment at
 * which it was sent: the service counts from a later one, so that it never stops waiting for an edge which still believes what it was told.
 */
export class Lease {
  readonly #clock: Pick<Clock, 'monotonic'>;
  #untilMs = Number.NEGATIVE_INFINITY;
  #heardMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  get isValid(): boolean {
    const nowMs = this.#clock.monotonic();
    return nowMs < this.#untilMs && nowMs < this.#heardMs + silenceMsMax;
  }

  /** The feed said something. */
  heard(): void {
    this.#heardMs = this.#clock.monotonic();
  }

  renew(sentMs: number, leaseMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, sentMs + leaseMs);
  }

  end(): void {
    this.#untilMs = Number.NEGATIVE_INFINITY;
  }
}
