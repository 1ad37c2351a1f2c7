import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { RateLimits } from '#shared/rate-limits.ts';

/** Whom limits are counted for: the key, or the user of a session (service.md, Authentication). */
export type RateLimitedCaller = { apiKeyId: string; userId: string };

/** Where a subject's limits stand; shown to clients as x-ratelimit-*. */
export type RateLimitReading = {
  limitRequests: number;
  remainingRequests: number;
  resetRequestsMs: number;
  limitTokens: number;
  remainingTokens: number;
  resetTokensMs: number;
};

/** An admitted request. `release` is called exactly once, at its end. */
export type RateAdmission = { reading: RateLimitReading; release(tokensUsed: number): void };

/** What was asked of a subject since it was last reported, for the reckoning of shares among replicas. */
export type SubjectDemand = {
  id: string;
  isKey: boolean;
  requests: number;
  tokens: number;
  concurrentRequests: number;
  limits: RateLimits;
};

/** Asks for this replica's shares anew; undefined: it would bring nothing new yet. */
export type AskForShares = (subjectId: string) => Promise<void> | undefined;

type Subject = {
  readonly id: string;
  readonly isKey: boolean;
  limits: RateLimits;
  /** How full the buckets are: the milliseconds in which the whole limit would let that much through. */
  requestsLevel: number;
  tokensLevel: number;
  /** Up to when they have leaked, in monotonic milliseconds. */
  leakedMs: number;
  inFlight: number;
  /** This process's part of the limits, from 0 to 1; below 0: it was not given one by name. */
  share: number;
  /** Since the last report. */
  requestsAsked: number;
  tokensTaken: number;
  /** Since the last report in turn. */
  wasAskedOutOfTurn: boolean;
};

const minuteMs = 60_000;
const noShare = -1;

/** Subjects kept before idle ones are swept out. */
const subjectsBeforeSweep = 10_000;

/**
 * The rate limits of one process, in memory, by leaky buckets. A bucket holds one minute's worth, so a subject never gets more
 * than its limit plus that burst. Nothing is refused for a request that the bucket could hold. Where several replicas share the
 * limits, each has its part of rate and bucket, so that the parts are together the whole; what was let through under a larger part
 * still counts under a smaller one.
 */
export class RateLimiter {
  readonly #monotonic: () => number;
  readonly #subjects = new Map<string, Subject>();
  #sweepAt = subjectsBeforeSweep;
  /** This process's part of the limits of a subject that it has not reported. */
  unreportedShare = 1;
  /** Those who share the limits, this process included. */
  replicas = 1;
  /** Set where there are replicas to share with. */
  askForShares: AskForShares | null = null;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /**
   * Admits a request, or throws RATE_LIMITED or TOKEN_RATE_LIMITED. `tokens` is the estimate, corrected by `release`. A promise only
   * when this process's share is too small for a request that the whole limit may have room for: then a larger one is asked for.
   * `now` is the monotonic time: whoever has read it already spares the reading, which costs as much as all the rest.
   */
  admit(
    caller: RateLimitedCaller,
    limits: RateLimits,
    tokens: number,
    now = this.#monotonic(),
  ): RateAdmission | Promise<RateAdmission> {
    const subject = this.#subject(caller, limits, now);
    subject.requestsAsked += 1;
    this.#leak(subject, now);
    const share = this.#shareOf(subject);
    const refusal = refusalAt(subject, limits, tokens, share);
    if (refusal === null) return this.#enter(subject, limits, tokens, share);
    if (share === 1 || refusalAt(subject, limits, tokens, 1) !== null) throw refusal;
    const asking = this.askForShares?.(subject.id);
    if (asking === undefined) throw refusal;
    return asking.then(() => {
      this.#leak(subject, this.#monotonic());
      const newShare = this.#shareOf(subject);
      const still = refusalAt(subject, limits, tokens, newShare);
      if (still !== null) throw still;
      return this.#enter(subject, limits, tokens, newShare);
    });
  }

  /** Where a subject stands, without a request. */
  read(caller: RateLimitedCaller, limits: RateLimits): RateLimitReading {
    const subject = this.#subjects.get(caller.apiKeyId || caller.userId);
    if (subject === undefined) return reading(limits, 0, 0, 1);
    this.#leak(subject, this.#monotonic());
    return reading(limits, subject.requestsLevel, subject.tokensLevel, this.#shareOf(subject));
  }

  /** The requests of a subject that run now. */
  running(caller: RateLimitedCaller): number {
    return this.#subjects.get(caller.apiKeyId || caller.userId)?.inFlight ?? 0;
  }

  /**
   * What was asked since the last call, by subject. At a report in turn, subjects that nobody has asked for since the one before, and
   * that run nothing, lose their shares.
   */
  takeDemands(inTurn: boolean): SubjectDemand[] {
    const now = this.#monotonic();
    const demands: SubjectDemand[] = [];
    for (const subject of this.#subjects.values()) {
      const { id, isKey, inFlight, requestsAsked, tokensTaken, limits } = subject;
      const isBusy = requestsAsked > 0 || inFlight > 0;
      if (inTurn && !isBusy && !subject.wasAskedOutOfTurn) {
        this.#leak(subject, now);
        subject.share = noShare;
      }
      subject.wasAskedOutOfTurn = !inTurn && (isBusy || subject.wasAskedOutOfTurn);
      if (!isBusy && subject.share === noShare) continue;
      // Corrections may exceed what was taken meanwhile; the rest counts against the next report.
      const tokens = Math.max(0, Math.round(tokensTaken));
      demands.push({ id, isKey, requests: requestsAsked, tokens, concurrentRequests: inFlight, limits });
      subject.requestsAsked = 0;
      subject.tokensTaken = Math.min(0, tokensTaken);
    }
    return demands;
  }

  /** Sets this process's part of a subject's limits, from 0 to 1. */
  setShare(subjectId: string, share: number): void {
    const subject = this.#subjects.get(subjectId);
    if (subject === undefined) return;
    this.#leak(subject, this.#monotonic());
    subject.share = share;
  }

  #shareOf({ share }: Subject): number {
    return share === noShare ? this.unreportedShare : share;
  }

  /**
   * A bucket leaks at this process's part of the rate. One that has gone quiet leaks at an even part, although others may have been
   * given all: a subject that has moved to another replica must find room when it comes back.
   */
  #leak(subject: Subject, now: number): void {
    const rate = subject.share === noShare ? 1 / this.replicas : subject.share;
    const leaked = (now - subject.leakedMs) * rate;
    subject.leakedMs = now;
    subject.requestsLevel = Math.max(0, subject.requestsLevel - leaked);
    subject.tokensLevel = Math.max(0, subject.tokensLevel - leaked);
  }

  #enter(subject: Subject, limits: RateLimits, tokens: number, share: number): RateAdmission {
    const tokenMs = minuteMs / limits.tokensPerMinute;
    subject.requestsLevel += minuteMs / limits.requestsPerMinute;
    subject.tokensLevel += tokens * tokenMs;
    subject.inFlight += 1;
    subject.tokensTaken += tokens;
    return {
      reading: reading(limits, subject.requestsLevel, subject.tokensLevel, share),
      release(tokensUsed) {
        subject.inFlight -= 1;
        subject.tokensLevel = Math.max(0, subject.tokensLevel + (tokensUsed - tokens) * tokenMs);
        subject.tokensTaken += tokensUsed - tokens;
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
        requestsLevel: 0,
        tokensLevel: 0,
        leakedMs: now,
        inFlight: 0,
        share: noShare,
        requestsAsked: 0,
        tokensTaken: 0,
        wasAskedOutOfTurn: false,
      };
      this.#subjects.set(id, subject);
    }
    subject.limits = limits;
    return subject;
  }

  /** Forgets subjects whose buckets are whole again; forgetting them changes nothing. */
  #sweep(now: number): void {
    for (const [id, subject] of this.#subjects) {
      this.#leak(subject, now);
      if (subject.inFlight === 0 && subject.requestsLevel === 0 && subject.tokensLevel === 0) this.#subjects.delete(id);
    }
    this.#sweepAt = Math.max(subjectsBeforeSweep, this.#subjects.size * 2);
  }
}

/** A part of a limit; never less than one, so that every replica can serve everybody. */
const partOf = (limit: number, share: number): number => Math.max(1, limit * share);

/** Why a request is not admitted under a share of the limits; null when it is. The buckets have leaked. */
function refusalAt(
  { inFlight, requestsLevel, tokensLevel }: Subject,
  { requestsPerMinute, tokensPerMinute, concurrentRequests }: RateLimits,
  tokens: number,
  share: number,
): Error | null {
  if (inFlight >= partOf(concurrentRequests, share))
    return limited(ErrorReason.RATE_LIMITED, 'concurrent requests', concurrentRequests, 1000);
  const requestMs = minuteMs / requestsPerMinute;
  const requestsOver = requestsLevel + requestMs - Math.max(requestMs, minuteMs * share);
  // A hair of tolerance: sums of floats must not refuse the last request of a full bucket.
  if (requestsOver > 1e-6)
    return limited(ErrorReason.RATE_LIMITED, 'requests per minute', requestsPerMinute, requestsOver / share);
  // A request above the whole limit passes when the bucket is untouched: it could never pass otherwise.
  if (tokensLevel === 0) return null;
  const tokensOver = tokensLevel + (tokens * minuteMs) / tokensPerMinute - minuteMs * share;
  if (tokensOver <= 1e-6) return null;
  const waitMs = Math.min(tokensOver, tokensLevel) / share;
  return limited(ErrorReason.TOKEN_RATE_LIMITED, 'tokens per minute', tokensPerMinute, waitMs);
}

/** What is left of the buckets, told of the whole limits: shares follow demand, so that the other replicas' parts are about as full. */
function reading(limits: RateLimits, requestsLevel: number, tokensLevel: number, share: number): RateLimitReading {
  return {
    limitRequests: limits.requestsPerMinute,
    remainingRequests: remaining(limits.requestsPerMinute, requestsLevel / share),
    resetRequestsMs: Math.ceil(requestsLevel / share),
    limitTokens: limits.tokensPerMinute,
    remainingTokens: remaining(limits.tokensPerMinute, tokensLevel / share),
    resetTokensMs: Math.ceil(tokensLevel / share),
  };
}

const remaining = (limit: number, fillMs: number): number =>
  Math.max(0, Math.floor(((minuteMs - fillMs) / minuteMs) * limit + 1e-6));

const limited = (reason: ErrorReason, what: string, limit: number, retryAfterMs: number): Error =>
  gatewayError(
    reason,
    `Rate limit reached: ${limit} ${what}. Try again in ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s.`,
    {
      retryAfterMs: Math.max(1000, retryAfterMs),
    },
  );
