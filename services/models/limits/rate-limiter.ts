import type { CallerConstraints } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { defaultRateLimits, type RateLimits } from '#shared/rate-limits.ts';

/** A caller's own limits; what they leave open is the platform's default. */
export const rateLimitsOf = (own: CallerConstraints | undefined): RateLimits => ({
  requestsPerMinute: own?.requestsPerMinute || defaultRateLimits.requestsPerMinute,
  tokensPerMinute: own?.tokensPerMinute || defaultRateLimits.tokensPerMinute,
  concurrentRequests: own?.concurrentRequests || defaultRateLimits.concurrentRequests,
});

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

type Subject = {
  /** The theoretical arrival times of GCRA, in monotonic milliseconds: how far each bucket is filled into the future. */
  requestsTat: number;
  tokensTat: number;
  inFlight: number;
};

const minuteMs = 60_000;

/** Subjects kept before idle ones are swept out. */
const subjectsBeforeSweep = 10_000;

/**
 * The rate limits of one process, in memory, by the generic cell rate algorithm. A bucket holds one minute's worth, so a
 * subject never gets more than its limit plus that burst. Nothing is refused for a request that the bucket could hold.
 */
export class RateLimiter {
  readonly #monotonic: () => number;
  readonly #subjects = new Map<string, Subject>();
  #sweepAt = subjectsBeforeSweep;
  /** This process's part of the limits, from 0 to 1, where several replicas share them. */
  share = 1;

  constructor(monotonic: () => number) {
    this.#monotonic = monotonic;
  }

  /** Admits a request or throws RATE_LIMITED. `tokens` is the estimate, corrected by `release`. */
  admit(subjectId: string, limits: RateLimits, tokens: number): RateAdmission {
    const now = this.#monotonic();
    const subject = this.#subject(subjectId, now);
    const requestsLimit = Math.max(1, limits.requestsPerMinute * this.share);
    const tokensLimit = Math.max(1, limits.tokensPerMinute * this.share);
    const requestMs = minuteMs / requestsLimit;
    const tokenMs = minuteMs / tokensLimit;

    if (subject.inFlight >= Math.max(1, limits.concurrentRequests * this.share))
      throw limited(ErrorReason.RATE_LIMITED, 'concurrent requests', limits.concurrentRequests, 1000);
    const requestsTat = Math.max(subject.requestsTat, now) + requestMs;
    const requestsOver = requestsTat - now - minuteMs;
    // A hair of tolerance: sums of floats must not refuse the last request of a full bucket.
    if (requestsOver > 1e-6)
      throw limited(ErrorReason.RATE_LIMITED, 'requests per minute', limits.requestsPerMinute, requestsOver);
    const tokensTat = Math.max(subject.tokensTat, now) + tokens * tokenMs;
    const tokensOver = tokensTat - now - minuteMs;
    // A request above the whole limit passes when the bucket is untouched: it could never pass otherwise.
    if (tokensOver > 1e-6 && subject.tokensTat > now)
      throw limited(
        ErrorReason.TOKEN_RATE_LIMITED,
        'tokens per minute',
        limits.tokensPerMinute,
        Math.min(tokensOver, subject.tokensTat - now),
      );

    subject.requestsTat = requestsTat;
    subject.tokensTat = tokensTat;
    subject.inFlight++;
    return {
      reading: reading(limits, requestsTat - now, requestMs, tokensTat - now, tokenMs),
      release(tokensUsed) {
        subject.inFlight--;
        subject.tokensTat += (tokensUsed - tokens) * tokenMs;
      },
    };
  }

  /** Where a subject stands, without a request. */
  read(subjectId: string, limits: RateLimits): RateLimitReading {
    const now = this.#monotonic();
    const subject = this.#subjects.get(subjectId);
    const requestMs = minuteMs / Math.max(1, limits.requestsPerMinute * this.share);
    const tokenMs = minuteMs / Math.max(1, limits.tokensPerMinute * this.share);
    return reading(limits, (subject?.requestsTat ?? now) - now, requestMs, (subject?.tokensTat ?? now) - now, tokenMs);
  }

  /** The requests of a subject that run now. */
  running(subjectId: string): number {
    return this.#subjects.get(subjectId)?.inFlight ?? 0;
  }

  #subject(id: string, now: number): Subject {
    let subject = this.#subjects.get(id);
    if (subject === undefined) {
      if (this.#subjects.size >= this.#sweepAt) this.#sweep(now);
      subject = { requestsTat: now, tokensTat: now, inFlight: 0 };
      this.#subjects.set(id, subject);
    }
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

function reading(
  limits: RateLimits,
  requestsFillMs: number,
  requestMs: number,
  tokensFillMs: number,
  tokenMs: number,
): RateLimitReading {
  return {
    limitRequests: limits.requestsPerMinute,
    remainingRequests: Math.max(0, Math.floor((minuteMs - Math.max(0, requestsFillMs)) / requestMs + 1e-6)),
    resetRequestsMs: Math.max(0, Math.ceil(requestsFillMs)),
    limitTokens: limits.tokensPerMinute,
    remainingTokens: Math.max(0, Math.floor((minuteMs - Math.max(0, tokensFillMs)) / tokenMs + 1e-6)),
    resetTokensMs: Math.max(0, Math.ceil(tokensFillMs)),
  };
}

const limited = (reason: ErrorReason, what: string, limit: number, retryAfterMs: number): Error =>
  gatewayError(
    reason,
    `Rate limit reached: ${limit} ${what}. Try again in ${Math.max(1, Math.ceil(retryAfterMs / 1000))} s.`,
    {
      retryAfterMs: Math.max(1000, retryAfterMs),
    },
  );
