import { setTimeout as delay } from 'node:timers/promises';

/** Something that happens again and again, to be waited for. */
export class Signal {
  #raised = Promise.withResolvers<void>();

  raise(): void {
    this.#raised.resolve();
    this.#raised = Promise.withResolvers();
  }

  /** The next time it happens, `ms` from now, or the abort of `signal`: whichever comes first. */
  async next(ms: number, signal: AbortSignal): Promise<void> {
    const enough = new AbortController();
    const stop = AbortSignal.any([signal, enough.signal]);
    await Promise.race([this.#raised.promise, delay(ms, undefined, { signal: stop }).catch(() => {})]);
    enough.abort();
  }
}
