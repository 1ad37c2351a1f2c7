import { GatewayError } from './errors.ts';
import type { Logger } from './logger.ts';
import { messageOf } from './message-of.ts';

export type FailureLogger = Pick<Logger, 'debug' | 'info' | 'warn'>;

/** How often a failure that goes on is logged, in milliseconds. */
const everyMs = 60_000;
/** The most causes that are logged in this time: whoever sends what is refused may find a new one for each call. */
const causesMax = 10;

/**
 * Logs the failures of what is tried again and again, once the next try has failed too: each cause once and then once a minute while it
 * lasts, ten of them at most, and in the end that it is over. `name` is what fails, e.g. `the catalog feed`. Where nobody may try again,
 * `toleratedMax` is 0.
 */
export class RepeatedFailures {
  readonly #name: string;
  readonly #logger: FailureLogger;
  readonly #toleratedMax: number;
  #failures = 0;
  #last: unknown;
  /** The causes that were logged since `#loggingMs`. */
  readonly #logged = new Set<string>();
  #loggingMs = 0;

  constructor(name: string, logger: FailureLogger, toleratedMax = 1) {
    this.#name = name;
    this.#logger = logger;
    this.#toleratedMax = toleratedMax;
  }

  /** `consequence` goes on from the name: `broke off; reopening it`. */
  failed(err: unknown, consequence: string): void {
    this.#failures += 1;
    this.#last = err;
    const told = `${this.#name} ${consequence}`;
    if (this.#failures <= this.#toleratedMax) {
      this.#logger.debug({ err }, told);
      return;
    }
    const nowMs = performance.now();
    const text = (err instanceof GatewayError ? err.details.internal : undefined) ?? messageOf(err);
    if (this.#failures === this.#toleratedMax + 1 || nowMs - this.#loggingMs >= everyMs) {
      this.#logged.clear();
      this.#loggingMs = nowMs;
    }
    if (this.#logged.size >= causesMax || this.#logged.has(text)) return;
    this.#logged.add(text);
    this.#logger.warn({ err, failures: this.#failures }, told);
  }

  succeeded(): void {
    if (this.#failures > this.#toleratedMax)
      this.#logger.info({ failures: this.#failures }, `${this.#name} works again`);
    this.#failures = 0;
  }

  /** Nothing is tried again: logs it if the last try failed. */
  ended(consequence: string): void {
    if (this.#failures === 0) return;
    this.#logger.warn({ err: this.#last, failures: this.#failures }, `${this.#name} ${consequence}`);
  }
}
