import { ErrorReason, gatewayError } from '#shared/errors.ts';
import {
  levelUnder,
  type RateLimits,
  rateLimitsMax,
  resetMsMax,
  unaskedConcurrent,
  unaskedPerMinute,
} from '#shared/rate-limits.ts';
import { Allowance } from './allowance.ts';

/** The subject of a limit: the key, or the user of a session (service.md, Authentication). */
type RateLimitedCaller = { apiKeyId: string; userId: string };

/** Where a subject's limits stand; shown to clients as x-ratelimit-*. */
export type RateLimitReading = {
  limitRequests: number;
  remainingRequests: number;
  resetRequestsMs: number;
  limitTokens: number;
  remainingTokens: number;
  resetTokensMs: number;
};

/** An admitted request. Call `release` exactly once, at its end. */
export type RateAdmission = { reading: RateLimitReading; release(tokensUsed: number): void };

/** What a replica reports about a subject: see QuotaDemand. */
export type SubjectDemand = {
  id: string;
  isKey: boolean;
  limits: RateLimits;
  requests: { settled: number; wanted: number };
  tokens: { settled: number; wanted: number };
  concurrent: number;
};

/** What a replica is granted for a subject: see QuotaShare. */
type SubjectGrant = {
  id: string;
  requests: number;
  tokens: number;
  concurrent: number;
  requestsFill: number;
  tokensFill: number;
};

type Subject = {
  readonly id: string;
  readonly isKey: boolean;
  limits: RateLimits;
  /**
   * How full the buckets are over all replicas, as far as known, grants included: the time in which the whole limit would let that much
   * through, in milliseconds.
   */
  requestsMs: number;
  tokensMs: number;
  /** The time up to which they have leaked, in monotonic milliseconds. */
  leakedMs: number;
  inFlight: number;
  /** How much of that Usage knew of at its last answer; it leaks there as well. */
  knownRequestsMs: number;
  knownTokensMs: number;
  /** The following is used only among several replicas. */
  readonly requests: Allowance;
  readonly tokens: Allowance;
  concurrentGranted: number;
  /** Usage may count concurrent requests as this replica's, which others lack until it has heard that there are none. */
  isCountedByUsage: boolean;
  /** The most that ran or waited at the same time since the last regular report. */
  concurrentPeak: number;
  waiting: number;
  /** When a grant that a request had waited for was too small. */
  deniedMs: number;
};

const minuteMs = 60_000;

/** After a grant that was too small, no other is requested out of turn for this long. */
const deniedForMs = 200;

/**
 * How long grants last without another answer of Usage, in milliseconds; by then it takes the replica for dead. In the buckets they leak
 * out: used or given back later, they would come on top of what others have let through since.
 */
const grantsLastMs = 5_000;

/** How many subjects are kept before idle ones are swept out. */
const subjectsBeforeSweep = 10_000;

/**
 * The rate limits of one process, in memory, by leaky buckets. A bucket holds one minute's worth, so a subject never gets more than its
 * limit plus that burst, and no request is refused that the bucket could hold. Where several replicas serve the same subjects, the buckets
 * belong to Usage: each replica lets through what it was granted, and asks every second for what the next will need.
 */
export class RateLimiter {
  readonly #monotonic: () => number;
  readonly #subjects = new Map<string, Subject>();
  #sweepAt = subjectsBeforeSweep;
  #replicas = 1;
  #answeredMs = Number.NEGATIVE_INFINITY;
  /**
   * Usage does not answer: each replica lets through as much as fits the bucket as it knows it, which leaks at an even share of the rate.
   */
  isCutOff = false;
  /** Reports waiting requests out of turn, and gets the grants. Never rejects. */
  askForGrants: () => Promise<void> = () => Promise.resolve();

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** The number of replicas that share the limits, this one included. */
  get replicas(): number {
    return this.#replicas;
  }

  set replicas(count: number) {
    const wasAlone = this.#replicas <= 1;
    const now = this.#monotonic();
    this.#answeredMs = now;
    this.#replicas = count;
    if (wasAlone === count <= 1) return;
    for (const subject of this.#subjects.values()) {
      this.#leak(subject, now);
      if (wasAlone) this.#joinOthers(subject);
      else this.#becomeAlone(subject, now);
    }
  }

  /** A replica that was alone has let through what no other one knows about. */
  #joinOthers(subject: Subject): void {
    const { limits, requestsMs, tokensMs, knownRequestsMs, knownTokensMs } = subject;
    const { requestMs, tokenMs } = unitsOf(limits);
    subject.requests.reset(Math.max(0, requestsMs - knownRequestsMs) / requestMs);
    subject.tokens.reset(Math.max(0, tokensMs - knownTokensMs) / tokenMs);
  }

  /** One that is now alone keeps what it was granted. */
  #becomeAlone(subject: Subject, now: number): void {
    this.#lapse(subject, now);
    subject.requests.reset(0);
    subject.tokens.reset(0);
  }

  /**
   * Admits a request, or throws RATE_LIMITED or TOKEN_RATE_LIMITED. `estimate` is the number of its tokens, corrected by `release`. Returns
   * a promise only when this replica's grant is too small for a request that the whole limit may have room for: then more is requested.
   * `now` is the monotonic time: passing it spares a reading that costs as much as everything else here.
   */
  admit(
    caller: RateLimitedCaller,
    limits: RateLimits,
    estimate: number,
    now = this.#monotonic(),
  ): RateAdmission | Promise<RateAdmission> {
    // Above every limit the number makes no difference: such a request passes only an untouched bucket.
    const tokens = Math.min(estimate, rateLimitsMax.tokensPerMinute);
    const subject = this.#subject(caller, limits, now);
    this.#leak(subject, now);
    if (this.#replicas > 1) {
      subject.requests.ask(1);
      subject.tokens.ask(tokens);
    }
    const refusal = refusalAt(subject, tokens);
    if (refusal !== null) throw refusal;
    // The requests that already wait come first: what this replica was granted, or will be, is theirs.
    const lack = this.#lackOf(subject, subject.waiting, subject.tokens.waiting + tokens, now);
    if (lack === null) return this.#enter(subject, tokens);
    if (now - subject.deniedMs < deniedForMs) throw notGranted(lack, limits);
    return this.#admitGranted(subject, tokens);
  }

  /** Admits a request with a grant that has to be requested. */
  async #admitGranted(subject: Subject, tokens: number): Promise<RateAdmission> {
    const waits = [subject.requests.wait(1), subject.tokens.wait(tokens)];
    subject.waiting += 1;
    subject.concurrentPeak = Math.max(subject.concurrentPeak, subject.inFlight + subject.waiting);
    await this.askForGrants();
    subject.waiting -= 1;
    for (const end of waits) end();
    const now = this.#monotonic();
    this.#leak(subject, now);
    const refusal = refusalAt(subject, tokens);
    if (refusal !== null) throw refusal;
    const lack = this.#lackOf(subject, 0, tokens, now);
    if (lack === null) return this.#enter(subject, tokens);
    subject.deniedMs = now;
    throw notGranted(lack, subject.limits);
  }

  /** The state of a subject's limits, without a request. */
  read(caller: RateLimitedCaller, limits: RateLimits): RateLimitReading {
    const subject = this.#subjects.get(caller.apiKeyId || caller.userId);
    if (subject === undefined) return reading(limits, 0, 0);
    const now = this.#monotonic();
    if (subject.limits !== limits) this.#adopt(subject, limits, now);
    this.#leak(subject, now);
    return readingOf(subject);
  }

  /** The number of a subject's requests that are running. */
  running(caller: RateLimitedCaller): number {
    return this.#subjects.get(caller.apiKeyId || caller.userId)?.inFlight ?? 0;
  }

  /** What to report: in the regular report all subjects that had requests or may hold grants, otherwise those with waiting requests. */
  takeDemands(inTurn: boolean): SubjectDemand[] {
    const demands: SubjectDemand[] = [];
    const now = this.#monotonic();
    const areGrantsOver = this.#areGrantsOver(now);
    for (const subject of this.#subjects.values()) {
      if (areGrantsOver) this.#lapse(subject, now);
      const { id, isKey, limits, inFlight, waiting, requests, tokens } = subject;
      const isQuiet = inFlight === 0 && waiting === 0 && !requests.wasAsked;
      if (inTurn ? isQuiet && requests.isUnused && tokens.isUnused && !subject.isCountedByUsage : waiting === 0)
        continue;
      const peak = Math.max(subject.concurrentPeak, inFlight + waiting, inTurn ? 0 : subject.concurrentGranted);
      const concurrent = isQuiet ? 0 : peak;
      // What is no longer asked for may be another's before the answer comes.
      subject.concurrentGranted = Math.min(subject.concurrentGranted, concurrent);
      // Even if its answer is lost.
      if (concurrent > 0) subject.isCountedByUsage = true;
      demands.push({
        id,
        isKey,
        limits,
        requests: requests.report(limits.requestsPerMinute, inTurn),
        tokens: tokens.report(limits.tokensPerMinute, inTurn),
        concurrent,
      });
      if (inTurn) subject.concurrentPeak = inFlight + waiting;
    }
    return demands;
  }

  /** A report failed: what has passed without a grant, and what no longer runs, is reported by the next. */
  takeBack(demands: readonly SubjectDemand[]): void {
    for (const { id } of demands) {
      const subject = this.#subjects.get(id);
      subject?.requests.takeBack();
      subject?.tokens.takeBack();
    }
  }

  grant(grant: SubjectGrant): void {
    const subject = this.#subjects.get(grant.id);
    if (subject === undefined) return;
    const { requestMs, tokenMs } = unitsOf(subject.limits);
    subject.leakedMs = this.#monotonic();
    subject.requests.grant(grant.requests);
    subject.tokens.grant(grant.tokens);
    subject.concurrentGranted = grant.concurrent;
    subject.isCountedByUsage = grant.concurrent > 0;
    subject.knownRequestsMs = grant.requestsFill * minuteMs;
    subject.knownTokensMs = grant.tokensFill * minuteMs;
    subject.requestsMs = subject.knownRequestsMs + Math.max(0, -subject.requests.left) * requestMs;
    subject.tokensMs = subject.knownTokensMs + Math.max(0, -subject.tokens.left) * tokenMs;
  }

  /**
   * The limit for which this replica's grant is too small although the buckets have room; null: none. `others` are the requests that come
   * before this one; `tokensNeeded` includes their tokens.
   */
  #lackOf(subject: Subject, others: number, tokensNeeded: number, now: number): keyof RateLimits | null {
    const replicas = this.#replicas;
    if (replicas <= 1 || this.isCutOff) return null;
    if (this.#areGrantsOver(now)) return 'requestsPerMinute';
    const { inFlight, concurrentGranted, requests, tokens, limits } = subject;
    if (inFlight + others >= Math.max(concurrentGranted, unaskedConcurrent(limits.concurrentRequests, replicas)))
      return 'concurrentRequests';
    if (!requests.covers(others + 1, unaskedPerMinute(limits.requestsPerMinute, replicas))) return 'requestsPerMinute';
    if (!tokens.covers(tokensNeeded, unaskedPerMinute(limits.tokensPerMinute, replicas))) return 'tokensPerMinute';
    return null;
  }

  #leak(subject: Subject, now: number): void {
    const elapsed = now - subject.leakedMs;
    const leaked = this.isCutOff ? elapsed / this.#replicas : elapsed;
    if (this.isCutOff) this.#leakUntold(subject, elapsed);
    subject.leakedMs = now;
    subject.requestsMs = Math.max(0, subject.requestsMs - leaked);
    subject.tokensMs = Math.max(0, subject.tokensMs - leaked);
    subject.knownRequestsMs = Math.max(0, subject.knownRequestsMs - elapsed);
    subject.knownTokensMs = Math.max(0, subject.knownTokensMs - elapsed);
  }

  /** Once what Usage knows has leaked out, what passed without it leaks: told as a whole, an hour of it would take another hour. */
  #leakUntold({ limits, requests, tokens, knownRequestsMs, knownTokensMs }: Subject, elapsed: number): void {
    const { requestMs, tokenMs } = unitsOf(limits);
    requests.leak(Math.max(0, elapsed - knownRequestsMs) / this.#replicas / requestMs);
    tokens.leak(Math.max(0, elapsed - knownTokensMs) / this.#replicas / tokenMs);
  }

  /** Whether Usage has not answered for so long, as when this process stood still, that it takes it for dead. */
  #areGrantsOver(now: number): boolean {
    return now - this.#answeredMs > grantsLastMs;
  }

  /** What has leaked of the buckets since includes what was granted and not used. */
  #lapse(subject: Subject, now: number): void {
    this.#leak(subject, now);
    const { requestMs, tokenMs } = unitsOf(subject.limits);
    subject.requestsMs = heldMs(subject.requestsMs, subject.requests, requestMs);
    subject.tokensMs = heldMs(subject.tokensMs, subject.tokens, tokenMs);
    subject.requests.lapse();
    subject.tokens.lapse();
    subject.concurrentGranted = 0;
  }

  /** Counts what passes, or comes back; granted amounts are already in the buckets. */
  #take(subject: Subject, requests: number, tokens: number): void {
    const { requestMs, tokenMs } = unitsOf(subject.limits);
    const isAlone = this.#replicas <= 1;
    const uncoveredRequests = isAlone ? requests : subject.requests.take(requests);
    const uncoveredTokens = isAlone ? tokens : subject.tokens.take(tokens);
    subject.requestsMs += uncoveredRequests * requestMs;
    subject.tokensMs = Math.max(0, subject.tokensMs + uncoveredTokens * tokenMs);
  }

  #enter(subject: Subject, tokens: number): RateAdmission {
    this.#take(subject, 1, tokens);
    subject.inFlight += 1;
    if (subject.inFlight > subject.concurrentPeak) subject.concurrentPeak = subject.inFlight;
    return {
      reading: readingOf(subject),
      release: (tokensUsed) => {
        subject.inFlight -= 1;
        // Nobody waits longer than a minute for what a call used beyond its estimate.
        this.#take(subject, 0, Math.min(tokensUsed - tokens, subject.limits.tokensPerMinute));
      },
    };
  }

  #subject({ apiKeyId, userId }: RateLimitedCaller, limits: RateLimits, now: number): Subject {
    const id = apiKeyId || userId;
    let subject = this.#subjects.get(id);
    if (subject === undefined) {
      if (this.#subjects.size >= this.#sweepAt) this.#sweep(now);
      subject = {
        id,
        isKey: apiKeyId !== '',
        limits,
        requestsMs: 0,
        tokensMs: 0,
        knownRequestsMs: 0,
        knownTokensMs: 0,
        leakedMs: now,
        inFlight: 0,
        requests: new Allowance(),
        tokens: new Allowance(),
        concurrentGranted: 0,
        isCountedByUsage: false,
        concurrentPeak: 0,
        waiting: 0,
        deniedMs: Number.NEGATIVE_INFINITY,
      };
      this.#subjects.set(id, subject);
    }
    if (subject.limits !== limits) this.#adopt(subject, limits, now);
    return subject;
  }

  /** The limits may have changed: until now the buckets have leaked under the old ones. */
  #adopt(subject: Subject, limits: RateLimits, now: number): void {
    this.#leak(subject, now);
    const { requestsPerMinute, tokensPerMinute } = subject.limits;
    subject.requestsMs = levelUnder(limits.requestsPerMinute, subject.requestsMs, requestsPerMinute);
    subject.tokensMs = levelUnder(limits.tokensPerMinute, subject.tokensMs, tokensPerMinute);
    subject.knownRequestsMs = levelUnder(limits.requestsPerMinute, subject.knownRequestsMs, requestsPerMinute);
    subject.knownTokensMs = levelUnder(limits.tokensPerMinute, subject.knownTokensMs, tokensPerMinute);
    subject.requests.lower(limits.requestsPerMinute, requestsPerMinute);
    subject.tokens.lower(limits.tokensPerMinute, tokensPerMinute);
    subject.limits = limits;
  }

  /** Forgets subjects whose buckets are empty again, which changes nothing. */
  #sweep(now: number): void {
    for (const [id, subject] of this.#subjects) {
      this.#leak(subject, now);
      const { inFlight, waiting, requestsMs, tokensMs, requests, tokens } = subject;
      const isIdle = inFlight + waiting === 0 && !subject.isCountedByUsage && requests.isUnused && tokens.isUnused;
      if (isIdle && requestsMs === 0 && tokensMs === 0) this.#subjects.delete(id);
    }
    this.#sweepAt = Math.max(subjectsBeforeSweep, this.#subjects.size * 2);
  }
}

/** The time in which the limits let one request and one token through, in milliseconds. */
const unitsOf = ({ requestsPerMinute, tokensPerMinute }: RateLimits) => ({
  requestMs: minuteMs / requestsPerMinute,
  tokenMs: minuteMs / tokensPerMinute,
});

/** The level of a bucket without what this replica was granted and has not used: it still may. */
const heldMs = (levelMs: number, allowance: Allowance, unitMs: number): number =>
  Math.max(0, levelMs - Math.max(0, allowance.left) * unitMs);

/** Why a request is refused even under the whole limits; null when there is room. The buckets have leaked up to now. */
function refusalAt(subject: Subject, tokens: number): Error | null {
  const { limits } = subject;
  if (subject.inFlight >= limits.concurrentRequests) return limited('concurrentRequests', limits, 1000);
  const { requestMs, tokenMs } = unitsOf(limits);
  const requestsOver = heldMs(subject.requestsMs, subject.requests, requestMs) + requestMs - minuteMs;
  // A little tolerance: sums of floats must not refuse the last request of a full bucket.
  if (requestsOver > 1e-6) return limited('requestsPerMinute', limits, requestsOver);
  // A request larger than the whole limit passes an untouched bucket: it could never pass otherwise.
  const tokensLevel = heldMs(subject.tokensMs, subject.tokens, tokenMs);
  if (tokensLevel === 0) return null;
  const tokensOver = tokensLevel + tokens * tokenMs - minuteMs;
  if (tokensOver <= 1e-6) return null;
  return limited('tokensPerMinute', limits, Math.min(tokensOver, tokensLevel));
}

/** Other replicas hold what is left; within a second they give back what they do not need. */
const notGranted = (lack: keyof RateLimits, limits: RateLimits): Error => limited(lack, limits, 1000);

const readingOf = ({ limits, requestsMs, tokensMs, requests, tokens }: Subject): RateLimitReading => {
  const { requestMs, tokenMs } = unitsOf(limits);
  return reading(limits, heldMs(requestsMs, requests, requestMs), heldMs(tokensMs, tokens, tokenMs));
};

function reading(limits: RateLimits, requestsMs: number, tokensMs: number): RateLimitReading {
  return {
    limitRequests: limits.requestsPerMinute,
    remainingRequests: remaining(limits.requestsPerMinute, requestsMs),
    resetRequestsMs: Math.min(Math.ceil(requestsMs), resetMsMax),
    limitTokens: limits.tokensPerMinute,
    remainingTokens: remaining(limits.tokensPerMinute, tokensMs),
    resetTokensMs: Math.min(Math.ceil(tokensMs), resetMsMax),
  };
}

const remaining = (limit: number, fillMs: number): number =>
  Math.max(0, Math.floor(((minuteMs - fillMs) / minuteMs) * limit + 1e-6));

const namesOfLimits: Record<keyof RateLimits, string> = {
  requestsPerMinute: 'requests per minute',
  tokensPerMinute: 'tokens per minute',
  concurrentRequests: 'concurrent requests',
};

const limited = (which: keyof RateLimits, limits: RateLimits, retryAfterMs: number): Error =>
  gatewayError(
    which === 'tokensPerMinute' ? ErrorReason.TOKEN_RATE_LIMITED : ErrorReason.RATE_LIMITED,
    `Rate limit reached: ${limits[which]} ${namesOfLimits[which]}. Try again in ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s.`,
    { retryAfterMs: Math.max(1000, retryAfterMs) },
  );
