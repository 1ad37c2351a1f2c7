/** Random numbers that a seed reproduces (mulberry32). */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to, but not including, 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  /** An integer, with both ends included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }
}

type Waiter = { atMs: number; order: number; resume: () => void };

/** Time that passes only when everything waits for it, so that a run is determined by its seed alone. */
export class VirtualTime {
  #nowMs = 0;
  #order = 0;
  readonly #waiters: Waiter[] = [];

  now = (): number => this.#nowMs;

  sleep(ms: number): Promise<void> {
    return new Promise((resume) => {
      const waiter = { atMs: this.#nowMs + ms, order: this.#order++, resume };
      // Kept sorted: the lists are short.
      let index = this.#waiters.length;
      while (index > 0 && isLater(this.#waiters[index - 1]!, waiter)) index -= 1;
      this.#waiters.splice(index, 0, waiter);
    });
  }

  /** Lets time pass until `isDone`, waking one sleeper after another. */
  async runUntil(isDone: () => boolean): Promise<void> {
    await settled();
    while (!isDone()) {
      const next = this.#waiters.shift();
      if (next === undefined) throw new Error('everything waits for something that never comes');
      this.#nowMs = next.atMs;
      next.resume();
      await settled();
    }
  }
}

const isLater = (a: Waiter, b: Waiter): boolean => a.atMs > b.atMs || (a.atMs === b.atMs && a.order > b.order);

/** Resolves when no promise callback is left to run. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
