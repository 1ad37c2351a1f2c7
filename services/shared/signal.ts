/** A recurring event that can be waited for. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  raise(): void {
    for (const wake of this.#waiting) wake();
  }

  /** Resolves at the next occurrence, after `ms`, or when `signal` aborts, whichever comes first. */
  next(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', wake);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      signal?.addEventListener('abort', wake);
      this.#waiting.add(wake);
    });
  }
}
