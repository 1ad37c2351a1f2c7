/** What routing knows about a deployment. */
export type RoutableDeployment = {
  /** Deployments of a lower number are tried first. */
  priority: number;
  /** Share of the traffic within a priority; at least 1. */
  weight: number;
  /** Requests which it may run at the same time. */
  concurrencyMax: number;
  /** Requests which it runs now. */
  readonly inFlight: number;
  /** Of about equally loaded deployments the one with the lowest is next. */
  readonly turn: number;
  /** False while it is stopped or failed, or its breaker is open. */
  readonly available: boolean;
  /** True while it has asked to be spared; it is then used only when nothing else is available. */
  readonly cooling: boolean;
};

/**
 * Whose turn it is among the deployments of a model, so that each gets calls by its weight even if they come one by one (start-time fair
 * queuing). One that is new, or was away, is next, but makes up for nothing that it missed.
 */
export class Turns {
  /** The turn of the last call. */
  #now = 0;

  /** When a deployment is next, given when it would be by the calls that it had. */
  next(due: number): number {
    return Math.max(due, this.#now);
  }

  /** A deployment begins a call; returns when it is due again. */
  taken(due: number, weight: number): number {
    this.#now = this.next(due);
    return this.#now + 1 / weight;
  }
}

/**
 * The deployment for the next attempt: the least loaded by weight within the first priority that has room; null when none has. Those in
 * `tried` are excluded. While few calls run, one of small weight is nearly always idle, and would get one after the other: as long as a
 * single call makes the difference, turns decide.
 */
export function chooseDeployment<T extends RoutableDeployment>(
  deployments: readonly T[],
  tried: ReadonlySet<T>,
): T | null {
  const first: T[] = [];
  for (const candidate of deployments) {
    if (!candidate.available || candidate.inFlight >= candidate.concurrencyMax || tried.has(candidate)) continue;
    const place = first[0] === undefined ? 0 : placeBetween(candidate, first[0]);
    if (place < 0) first.length = 0;
    if (place <= 0) first.push(candidate);
  }
  /** What the least loaded would have with one more call. */
  let leastNext = Number.POSITIVE_INFINITY;
  for (const { inFlight, weight } of first) leastNext = Math.min(leastNext, (inFlight + 1) / weight);
  let best: T | null = null;
  for (const candidate of first) {
    if (candidate.inFlight / candidate.weight >= leastNext) continue;
    if (best === null || candidate.turn < best.turn) best = candidate;
  }
  return best;
}

/** Negative when one goes before the other whatever their loads, positive when it comes after it. */
const placeBetween = (one: RoutableDeployment, other: RoutableDeployment): number =>
  Number(one.cooling) - Number(other.cooling) || one.priority - other.priority;
