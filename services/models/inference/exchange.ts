import { cancelled } from '#shared/errors.ts';
import type { Cancellation } from '#shared/rpc/cancellation.ts';
import type { UpstreamExchange, UpstreamFailure, UpstreamHandler, UpstreamHead } from '../upstream/upstream.ts';

/** Bytes that may wait for the client before the upstream is paused. */
const waitingBytesMax = 256 * 1024;
/** What each piece takes in memory beside its bytes, which may be few. */
const bytesPerPiece = 200;

type ExchangeEvent =
  | { kind: 'head'; head: UpstreamHead }
  | { kind: 'data'; chunk: Uint8Array }
  | { kind: 'end' }
  | { kind: 'failed'; failure: UpstreamFailure };

/**
 * The pull side of an upstream exchange: what the upstream pushes is queued here until it is taken, and the upstream is paused while the
 * queue is too long.
 */
export class PulledExchange implements UpstreamHandler {
  readonly #events: ExchangeEvent[] = [];
  #exchange: UpstreamExchange | undefined;
  #waitingBytes = 0;
  #paused = false;
  #wake: (() => void) | null = null;
  /** Whether it has failed, even if queued events are left. */
  failed = false;
  /** Whether its time ran out while the upstream was paused: then it was its reader that was slow. */
  isReaderLate = false;

  /** Called once, with what Upstream.send returned. */
  attach(exchange: UpstreamExchange): void {
    this.#exchange = exchange;
  }

  onHead(head: UpstreamHead): void {
    this.#push({ kind: 'head', head });
  }

  onData(chunk: Uint8Array): void {
    this.#waitingBytes += chunk.byteLength + bytesPerPiece;
    if (this.#waitingBytes > waitingBytesMax && !this.#paused) {
      this.#paused = true;
      this.#exchange?.pause();
    }
    this.#push({ kind: 'data', chunk });
  }

  onEnd(): void {
    this.#push({ kind: 'end' });
  }

  onError(failure: UpstreamFailure): void {
    this.failed = true;
    this.#push({ kind: 'failed', failure });
  }

  #push(event: ExchangeEvent): void {
    this.#events.push(event);
    const wake = this.#wake;
    if (wake !== null) {
      this.#wake = null;
      wake();
    }
  }

  /** The next event, without a promise if it is there already. Rejects with CANCELLED once the caller has left. */
  next(caller: Pick<Cancellation, 'aborted'>): ExchangeEvent | Promise<ExchangeEvent> {
    return this.take() ?? this.#awaited(caller);
  }

  async #awaited(caller: Pick<Cancellation, 'aborted'>): Promise<ExchangeEvent> {
    for (;;) {
      if (caller.aborted) throw cancelled();
      await this.arrival();
      const event = this.take();
      if (event !== undefined) return event;
    }
  }

  /** The next event, without taking it. Rejects as `next` does. */
  async peek(caller: Pick<Cancellation, 'aborted'>): Promise<ExchangeEvent> {
    for (;;) {
      const [event] = this.#events;
      if (event !== undefined) return event;
      if (caller.aborted) throw cancelled();
      await this.arrival();
    }
  }

  /** The next event if it is there already; must be tried before awaiting `arrival`. */
  take(): ExchangeEvent | undefined {
    const event = this.#events.shift();
    if (event?.kind === 'data') {
      this.#waitingBytes -= event.chunk.byteLength + bytesPerPiece;
      if (this.#paused && this.#waitingBytes <= waitingBytesMax / 2) {
        this.#paused = false;
        this.#exchange?.resume();
      }
    }
    return event;
  }

  /** The next event's bytes, if it is there already and has any. */
  takeData(): Uint8Array | undefined {
    if (this.#events[0]?.kind !== 'data') return undefined;
    const event = this.take();
    return event?.kind === 'data' ? event.chunk : undefined;
  }

  /** Resolves when something has arrived or `interrupt` was called. */
  arrival(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** Wakes the waiting reader, with nothing to take. */
  interrupt(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  abort(): void {
    this.#exchange?.abort();
  }

  /** The time of the whole call is over. */
  expire(): void {
    this.isReaderLate = this.#paused;
    this.#exchange?.abort();
    const message = 'the call took too long as a whole';
    this.onError({
      kind: 'timeout',
      message: this.isReaderLate ? `${message}, since its answer was read slowly` : message,
    });
  }
}
