/** Further attempts that each request pays for: retries add a fifth at most (reliability.md, Promises). */
const retriesPerRequest = 0.2;
/** The most retries that can be saved up, so that the first failures of a quiet model find another deployment. */
const savedMax = 10;

/** Keeps retries from multiplying the load of an upstream that is failing. */
export class RetryBudget {
  #saved = savedMax;

  /** A request was admitted. */
  deposit(): void {
    this.#saved = Math.min(savedMax, this.#saved + retriesPerRequest);
  }

  /** Takes one retry; false when there is none left. */
  withdraw(): boolean {
    if (this.#saved < 1) return false;
    this.#saved -= 1;
    return true;
  }
}
