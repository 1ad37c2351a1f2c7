/** How the journal converts its owner's events to JSON text and back. The journal itself knows only their ids. */
export type EventCodec<Event, Progress> = {
  /** An event that begins, as one JSON value in text form. 64-bit integers must be strings, since JSON numbers are doubles. */
  encode(event: Event): string;
  /** The same event after its end. `begun` is what `encode` made of it, most of which still holds. */
  encodeEnd(event: Event, begun: string): string;
  /** The inverse of both, from parsed JSON. Throws if it is not an event. */
  decode(json: unknown): Event;
  /** The event of a request whose process died, from what was known at admission and what was last counted. Null: it has none. */
  interrupted(begin: Event, lastProgress: Progress | null): Event | null;
};

/** Events on their way to Usage, and the position to acknowledge once they are stored. */
export type Batch<Event> = {
  events: Event[];
  /** Everything before this position is in this batch or an earlier one. */
  end: LogPosition;
  /** Monotonic milliseconds at which the oldest event ended. */
  sinceMs: number;
};

/** A place in a journal: a segment's number and an offset in its file. */
export type LogPosition = { segment: number; offset: number };

/** Where the shipper gets its batches: this process's journal, or the one a dead process left behind. */
export type EventSource<Event> = {
  /** For the log. */
  readonly name: string;
  /** The next batch, in order; waits for one. Null when there is none and none will come, or once `closing` aborts. */
  nextBatch(closing: AbortSignal): Promise<Batch<Event> | null>;
  /** The batch is stored and need not be kept any longer. Batches are acknowledged in the order in which they were given. */
  acknowledge(batch: Batch<Event>): void;
};

export const eventsPerBatchMax = 1000;
