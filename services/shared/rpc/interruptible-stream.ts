/** What the owner of a stream does when it ends; exactly one of them is called, once. */
export type StreamEnding = {
  /** The source ended by itself. */
  finished(): void;
  /** The source failed or the stream was interrupted; returns the error for the reader. */
  failed(error: unknown): unknown;
  /** The reader left before the end. */
  left(): void;
};

/** For a stream whose end concerns its reader alone. */
export const unnoticed: StreamEnding = { finished() {}, failed: (error) => error, left() {} };

type Result<T> = IteratorResult<T, undefined>;

const over: Result<never> = { done: true, value: undefined };

/**
 * Passes on an async iterator, one read at a time and at the reader's pace. Unlike an async generator it can be interrupted while its
 * source is busy: the reader's pending read fails at once, and the source is asked to return.
 */
export class InterruptibleStream<T> implements AsyncIterableIterator<T, undefined> {
  readonly #source: AsyncIterator<unknown>;
  readonly #convert: (value: unknown) => T;
  readonly #ending: StreamEnding;
  #isOver = false;
  #interruption: { error: unknown } | undefined;
  #resolve: ((result: Result<T>) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;
  #pending: Promise<Result<T>> | undefined;

  constructor(source: AsyncIterable<unknown>, convert: (value: unknown) => T, ending: StreamEnding) {
    this.#source = source[Symbol.asyncIterator]();
    this.#convert = convert;
    this.#ending = ending;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<Result<T>> {
    if (this.#resolve !== undefined) return this.#afterPending();
    if (this.#interruption !== undefined) {
      const { error } = this.#interruption;
      this.#interruption = undefined;
      return Promise.reject(error);
    }
    if (this.#isOver) return Promise.resolve(over);
    const pending = new Promise<Result<T>>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#pending = pending;
    try {
      this.#source.next().then(this.#take, this.#fail);
    } catch (error) {
      this.#fail(error);
    }
    return pending;
  }

  /** The reader leaves; the source's `finally` runs now if it is waiting at a `yield`, else when it next gets to one. */
  return(): Promise<Result<T>> {
    if (!this.#isOver) {
      this.#isOver = true;
      this.#ending.left();
      this.#releaseSource();
      this.#settle()?.resolve(over);
    }
    this.#interruption = undefined;
    return Promise.resolve(over);
  }

  /** Ends the stream with an error, whatever its source is doing. */
  interrupt(error: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    const visible = this.#ending.failed(error);
    this.#releaseSource();
    const reader = this.#settle();
    if (reader === undefined) this.#interruption = { error: visible };
    else reader.reject(visible);
  }

  /** Interrupts the stream with the signal's reason once that aborts, or now if it has. */
  interruptOn(signal: AbortSignal): this {
    const interrupt = (): void => this.interrupt(signal.reason);
    if (signal.aborted) interrupt();
    else signal.addEventListener('abort', interrupt, { once: true });
    return this;
  }

  #take = (result: IteratorResult<unknown>): void => {
    if (this.#isOver) return;
    if (result.done) {
      this.#isOver = true;
      this.#ending.finished();
      this.#settle()?.resolve(over);
      return;
    }
    try {
      const value = this.#convert(result.value);
      this.#settle()?.resolve(value === result.value ? (result as Result<T>) : { done: false, value });
    } catch (error) {
      this.interrupt(error);
    }
  };

  #fail = (error: unknown): void => {
    if (this.#isOver) return;
    this.#isOver = true;
    const visible = this.#ending.failed(error);
    this.#settle()?.reject(visible);
  };

  #settle() {
    const resolve = this.#resolve;
    const reject = this.#reject;
    if (resolve === undefined || reject === undefined) return undefined;
    this.#resolve = undefined;
    this.#reject = undefined;
    return { resolve, reject };
  }

  /** Async generators queue reads; here a reader that does not wait for its last read gets the same behaviour. */
  #afterPending(): Promise<Result<T>> {
    const next = () => this.next();
    return this.#pending!.then(next, next);
  }

  #releaseSource(): void {
    // The stream has ended for its reader and was reported, so a failure of the source's clean-up is nobody's concern.
    this.#source.return?.()?.then(undefined, () => {});
  }
}
