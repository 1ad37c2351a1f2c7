import type { Clock } from '#shared/clock.ts';

/** A feed that is silent for this long is broken, in milliseconds; a heartbeat comes every 500 ms. */
const silenceMsMax = 1_500;

/**
 * Whether the edge may decide by what a feed told it. Each answered acknowledgement renews the lease, counted from the moment it was sent:
 * the service counts from a later moment, so it never stops waiting for an edge that still believes its lease.
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

  /** The feed has sent something. */
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
