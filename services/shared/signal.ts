/** Something that happens again and again, to be waited for. */
export class Signal {
  readonly #waiting = new Set<() => void>();

  raise(): void {
    for (const wake of this.#waiting) wake();
  }

  /** The next time it happens, `ms` from now, or the abort of `signal`: whichever comes first. */
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
