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
  /** The theoretical arrival times of GCRA, in monotonic milliseconds: how far each bucket is filled into the future. */
  requestsTat: number;
  tokensTat: number;
  inFlight: number;
  /** This process's part of the limits, from 0 to 1; below 0: it was not given one by name. */
  share: number;
  /** The part in whose terms the fill of the buckets stands. */
  fillShare: number;
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
 * The rate limits of one process, in memory, by the generic cell rate algorithm. A bucket holds one minute's worth, so a
 * subject never gets more than its limit plus that burst. Nothing is refused for a request that the bucket could hold.
 * Where several replicas share the limits, each has its part of rate and bucket, so that the parts are together the whole.
 */
export class RateLimiter {
  readonly #monotonic: () => number;
  readonly #subjects = new Map<string, Subject>();
  #sweepAt = subjectsBeforeSweep;
  /** This process's part of the limits of a subject that it has not reported. */
  unreportedShare = 1;
  /** Set where there are replicas to share with. */
  askForShares: AskForShares | null = null;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /**
   * Admits a request, or throws RATE_LIMITED or TOKEN_RATE_LIMITED. `tokens` is the estimate, corrected by `release`. A promise only
   * when this process's share is too small for a request that the whole limit may have room for: then a larger one is asked for.
   */
  admit(caller: RateLimitedCaller, limits: RateLimits, tokens: number): RateAdmission | Promise<RateAdmission> {
    const now = this.#monotonic();
    const subject = this.#subject(caller, limits, now);
    subject.requestsAsked += 1;
    const share = this.#shareOf(subject, now);
    const refusal = refusalAt(subject, limits, tokens, share, now);
    if (refusal === null) return this.#enter(subject, limits, tokens, share, now);
    if (share === 1 || refusalAt(inTermsOfAll(subject, now), limits, tokens, 1, now) !== null) throw refusal;
    const asking = this.askForShares?.(subject.id);
    if (asking === undefined) throw refusal;
    return asking.then(() => {
      const nowMs = this.#monotonic();
      const newShare = this.#shareOf(subject, nowMs);
      const still = refusalAt(subject, limits, tokens, newShare, nowMs);
      if (still !== null) throw still;
      return this.#enter(subject, limits, tokens, newShare, nowMs);
    });
  }

  /** Where a subject stands, without a request. */
  read(caller: RateLimitedCaller, limits: RateLimits): RateLimitReading {
    const now = this.#monotonic();
    const subject = this.#subjects.get(caller.apiKeyId || caller.userId);
    return reading(limits, (subject?.requestsTat ?? now) - now, (subject?.tokensTat ?? now) - now);
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
    const demands: SubjectDemand[] = [];
    for (const subject of this.#subjects.values()) {
      const { id, isKey, inFlight, requestsAsked, tokensTaken, limits } = subject;
      const isBusy = requestsAsked > 0 || inFlight > 0;
      if (inTurn && !isBusy && !subject.wasAskedOutOfTurn) subject.share = noShare;
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
    if (subject !== undefined) subject.share = share;
  }

  #shareOf(subject: Subject, now: number): number {
    const share = subject.share === noShare ? this.unreportedShare : subject.share;
    if (share !== subject.fillShare) rescale(subject, share, now);
    return share;
  }

  #enter(subject: Subject, limits: RateLimits, tokens: number, share: number, now: number): RateAdmission {
    const { tokensPerMinute } = limits;
    subject.requestsTat = Math.max(subject.requestsTat, now) + minuteMs / partOf(limits.requestsPerMinute, share);
    subject.tokensTat = Math.max(subject.tokensTat, now) + (tokens * minuteMs) / partOf(tokensPerMinute, share);
    subject.inFlight += 1;
    subject.tokensTaken += tokens;
    return {
      reading: reading(limits, subject.requestsTat - now, subject.tokensTat - now),
      release(tokensUsed) {
        subject.inFlight -= 1;
        subject.tokensTat += ((tokensUsed - tokens) * minuteMs) / partOf(tokensPerMinute, subject.fillShare);
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
        requestsTat: now,
        tokensTat: now,
        inFlight: 0,
        share: noShare,
        fillShare: this.unreportedShare,
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
      if (subject.inFlight === 0 && subject.requestsTat <= now && subject.tokensTat <= now) this.#subjects.delete(id);
    }
    this.#sweepAt = Math.max(subjectsBeforeSweep, this.#subjects.size * 2);
  }
}

type Fill = Pick<Subject, 'inFlight' | 'requestsTat' | 'tokensTat'>;

/** What is in the buckets, in terms of the whole limits. */
const inTermsOfAll = ({ inFlight, requestsTat, tokensTat, fillShare }: Subject, now: number): Fill => ({
  inFlight,
  requestsTat: now + Math.max(0, requestsTat - now) * fillShare,
  tokensTat: now + Math.max(0, tokensTat - now) * fillShare,
});

/** Puts what is in the buckets in terms of another share: in a larger part the same requests take less of a minute. */
function rescale(subject: Subject, share: number, now: number): void {
  const factor = subject.fillShare / share;
  const scaled = (tat: number): number => (tat <= now ? tat : now + Math.min(minuteMs, (tat - now) * factor));
  subject.requestsTat = scaled(subject.requestsTat);
  subject.tokensTat = scaled(subject.tokensTat);
  subject.fillShare = share;
}

/** A part of a limit; never less than one, so that every replica can serve everybody. */
const partOf = (limit: number, share: number): number => Math.max(1, limit * share);

/** Why a request is not admitted now under a share of the limits; null when it is. */
function refusalAt(
  { inFlight, requestsTat, tokensTat }: Fill,
  { requestsPerMinute, tokensPerMinute, concurrentRequests }: RateLimits,
  tokens: number,
  share: number,
  now: number,
): Error | null {
  if (inFlight >= partOf(concurrentRequests, share))
    return limited(ErrorReason.RATE_LIMITED, 'concurrent requests', concurrentRequests, 1000);
  const requestsOver = Math.max(requestsTat, now) + minuteMs / partOf(requestsPerMinute, share) - now - minuteMs;
  // A hair of tolerance: sums of floats must not refuse the last request of a full bucket.
  if (requestsOver > 1e-6)
    return limited(ErrorReason.RATE_LIMITED, 'requests per minute', requestsPerMinute, requestsOver);
  // A request above the whole limit passes when the bucket is untouched: it could never pass otherwise.
  if (tokensTat <= now) return null;
  const tokensOver = tokensTat + (tokens * minuteMs) / partOf(tokensPerMinute, share) - now - minuteMs;
  if (tokensOver <= 1e-6) return null;
  const waitMs = Math.min(tokensOver, tokensTat - now);
  return limited(ErrorReason.TOKEN_RATE_LIMITED, 'tokens per minute', tokensPerMinute, waitMs);
}

/** How much of the buckets is left, told of the whole limits: shares follow demand, so that the other replicas' parts are about as full. */
function reading(limits: RateLimits, requestsFillMs: number, tokensFillMs: number): RateLimitReading {
  return {
    limitRequests: limits.requestsPerMinute,
    remainingRequests: remaining(limits.requestsPerMinute, requestsFillMs),
    resetRequestsMs: Math.max(0, Math.ceil(requestsFillMs)),
    limitTokens: limits.tokensPerMinute,
    remainingTokens: remaining(limits.tokensPerMinute, tokensFillMs),
    resetTokensMs: Math.max(0, Math.ceil(tokensFillMs)),
  };
}

const remaining = (limit: number, fillMs: number): number =>
  Math.max(0, Math.floor(((minuteMs - Math.max(0, fillMs)) / minuteMs) * limit + 1e-6));

const limited = (reason: ErrorReason, what: string, limit: number, retryAfterMs: number): Error =>
  gatewayError(
    reason,
    `Rate limit reached: ${limit} ${what}. Try again in ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s.`,
    {
      retryAfterMs: Math.max(1000, retryAfterMs),
    },
  );
