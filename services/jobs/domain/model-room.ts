/** How long no job of a model is started after one was refused, in milliseconds. */
const pauseMs = 1_000;

/** With this many slots a model is no longer limited: a worker runs no more jobs at a time. */
const slotsMax = 64;

/**
 * How many jobs a worker starts at a time for models that recently refused one without a call, because no deployment serves or all are
 * full: one each second, and two more for each one not refused. This finds the available room without trying waiting jobs over and over.
 */
export class ModelRoom {
  readonly #models = new Map<string, { slots: number; refusedMs: number }>();

  /** A job of the model was refused. Times are monotonic, in milliseconds. */
  refused(model: string, nowMs: number): void {
    this.#models.set(model, { slots: 0, refusedMs: nowMs });
  }

  /** A job of the model was not refused, and its call is over. */
  passed(model: string): void {
    const limited = this.#models.get(model);
    if (limited === undefined) return;
    limited.slots += 2;
    if (limited.slots > slotsMax) this.#models.delete(model);
  }

  /** How many jobs of some models may be started now; there is no limit for the others. */
  slots(nowMs: number): ReadonlyMap<string, number> {
    const entries = [...this.#models].map(([model, { slots, refusedMs }]): [string, number] => [
      model,
      nowMs - refusedMs < pauseMs ? slots : Math.max(slots, 1),
    ]);
    return new Map(entries);
  }
}
