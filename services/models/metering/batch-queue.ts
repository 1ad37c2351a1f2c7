import { type Batch, eventsPerBatchMax, type LogPosition } from './event-codec.ts';

/** Ended events in memory, grouped into the batches in which they will be shipped. Holds at most `eventsMax`. */
export class BatchQueue<Event> {
  readonly #eventsMax: number;
  readonly #batches: Batch<Event>[] = [];
  #events = 0;

  constructor(eventsMax: number) {
    this.#eventsMax = eventsMax;
  }

  get full(): boolean {
    return this.#events >= this.#eventsMax;
  }

  get first(): Batch<Event> | undefined {
    return this.#batches[0];
  }

  get last(): Batch<Event> | undefined {
    return this.#batches.at(-1);
  }

  /** Adds an event whose record ends at `end`. */
  push(event: Event, end: LogPosition, nowMs: number): void {
    this.#events += 1;
    const { last } = this;
    if (last === undefined || last.events.length >= eventsPerBatchMax) {
      this.#batches.push({ events: [event], end, sinceMs: nowMs });
      return;
    }
    last.events.push(event);
    last.end = end;
  }

  /** The oldest batch, full or not. */
  take(): Batch<Event> | null {
    const batch = this.#batches.shift();
    if (batch === undefined) return null;
    this.#events -= batch.events.length;
    return batch;
  }
}
