/** Failures in a row which open a breaker (reliability.md, Promises). */
export const failuresToOpen = 5;
/** How long a breaker stays open the first time; doubled with each failed trial, so that recovery is seen within 30 s. */
const openMsMin = 1_000;
const openMsMax = 15_000;

/**
 * Whether an upstream is worth a call. Closed, it lets all calls through; open, none; after having been open for a while, one trial at a
 * time, which closes it or opens it for longer. Times are monotonic milliseconds.
 */
export class Breaker {
  /** Failures since the last success. */
  consecutiveFailures = 0;
  /** When it opened; failures of calls that began before say nothing new, however late they come. */
  #openedMs = Number.NEGATIVE_INFINITY;
  #openUntilMs: number | null = null;
  #openMs = openMsMin;
  /** When the trial that runs began; null: none does. */
  #trialMs: number | null = null;
  /** Closed because of a successful head alone; the body may still bring an error. */
  #isUnproven = false;

  state(nowMs: number): 'closed' | 'open' | 'half-open' {
    if (this.#openUntilMs === null) return 'closed';
    return nowMs < this.#openUntilMs ? 'open' : 'half-open';
  }

  /** Whether a call may begin now. */
  admits(nowMs: number): boolean {
    if (this.#openUntilMs === null) return true;
    return nowMs >= this.#openUntilMs && this.#trialMs === null;
  }

  /** A call begins; true when it is the trial. A trial must end with `endTrial`, however it goes. */
  begin(nowMs: number): boolean {
    if (this.state(nowMs) !== 'half-open') return false;
    this.#trialMs = nowMs;
    return true;
  }

  /** The trial that began at `startedMs` has ended. */
  endTrial(startedMs: number): void {
    if (this.#trialMs === startedMs) this.#trialMs = null;
  }

  /**
   * A call that began at `startedMs` is being answered, which may take long. Others are let through again, but if one fails before any has
   * succeeded, the breaker opens anew.
   */
  answered(nowMs: number, startedMs = nowMs): void {
    if (this.state(nowMs) === 'closed') return;
    this.consecutiveFailures = 0;
    this.#close(startedMs);
    this.#isUnproven = true;
  }

  /** A call that began at `startedMs` has succeeded. */
  succeed(nowMs: number, startedMs = nowMs): void {
    this.consecutiveFailures = 0;
    if (this.state(nowMs) !== 'closed') this.#close(startedMs);
    this.#openMs = openMsMin;
    this.#isUnproven = false;
  }

  #close(startedMs: number): void {
    this.#openUntilMs = null;
    // Should it open anew, one that is still being answered is no trial any longer.
    this.#trialMs = null;
    // A call that began before it opened is believed: then the failures of the others of that time are, too.
    if (startedMs < this.#openedMs) this.#openedMs = Number.NEGATIVE_INFINITY;
  }

  /** A call that began at `startedMs`, or a probe, has failed. */
  fail(nowMs: number, startedMs = nowMs): void {
    this.consecutiveFailures += 1;
    const state = this.state(nowMs);
    if (state === 'open' || startedMs < this.#openedMs) return;
    if (state === 'half-open' || this.#isUnproven) this.#openMs = Math.min(this.#openMs * 2, openMsMax);
    else if (this.consecutiveFailures < failuresToOpen) return;
    this.#isUnproven = false;
    this.#openedMs = nowMs;
    this.#openUntilMs = nowMs + this.#openMs;
  }
}
