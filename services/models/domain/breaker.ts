/** Failures in a row which open a breaker (reliability.md, Promises). */
const failuresToOpen = 5;
/** How long a breaker stays open the first time; doubled with each failed trial, so that recovery is seen within 30 s. */
const openMsMin = 1_000;
const openMsMax = 15_000;

/**
 * Whether an upstream is worth a call. Closed, it lets all through; open, none; and once it has been open for a while, one
 * trial at a time, which closes it or opens it for longer. Times are monotonic milliseconds.
 */
export class Breaker {
  /** Failures since the last success. */
  consecutiveFailures = 0;
  #openUntilMs: number | null = null;
  #openMs = openMsMin;
  #trialRuns = false;
  /** Closed on the word of a head alone, behind which an error may come. */
  #isUnproven = false;

  state(nowMs: number): 'closed' | 'open' | 'half-open' {
    if (this.#openUntilMs === null) return 'closed';
    return nowMs < this.#openUntilMs ? 'open' : 'half-open';
  }

  /** Whether a call may begin now. */
  admits(nowMs: number): boolean {
    if (this.#openUntilMs === null) return true;
    return nowMs >= this.#openUntilMs && !this.#trialRuns;
  }

  /** A call begins; true when it is the trial. It must then end with `endTrial`, whatever becomes of it. */
  begin(nowMs: number): boolean {
    if (this.state(nowMs) !== 'half-open') return false;
    this.#trialRuns = true;
    return true;
  }

  endTrial(): void {
    this.#trialRuns = false;
  }

  /** An answer has begun, which may take long: others are let through again, until one fails before any has succeeded. */
  answered(nowMs: number): void {
    if (this.state(nowMs) === 'closed') return;
    this.consecutiveFailures = 0;
    this.#openUntilMs = null;
    this.#isUnproven = true;
  }

  succeed(): void {
    this.consecutiveFailures = 0;
    this.#openUntilMs = null;
    this.#openMs = openMsMin;
    this.#isUnproven = false;
  }

  fail(nowMs: number): void {
    this.consecutiveFailures += 1;
    const state = this.state(nowMs);
    // Calls that began before it opened say nothing new.
    if (state === 'open') return;
    if (state === 'half-open' || this.#isUnproven) this.#openMs = Math.min(this.#openMs * 2, openMsMax);
    else if (this.consecutiveFailures < failuresToOpen) return;
    this.#isUnproven = false;
    this.#openUntilMs = nowMs + this.#openMs;
  }
}
