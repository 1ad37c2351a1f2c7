import type { Client } from '@connectrpc/connect';
import { RateLimitSubjectKind } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import type { RateLimiter, SubjectDemand } from './rate-limiter.ts';

/** How often a replica reports; its shares hold for five times as long. */
export const shareReportMs = 1_000;

/** A share that was asked for this recently would not be another one now. */
const freshMs = 200;
const rpcTimeoutMs = 1_000;
const demandsMax = 10_000;

/**
 * Keeps the shares of a process's rate limiter (design.md, Snapshots: shares per replica by Usage.Quota). A process that is alone says
 * only that it lives, once a second, and gives out the limits whole. Without an answer its last shares stay.
 */
export class RateLimitShares {
  readonly #limiter: RateLimiter;
  readonly #usage: Pick<Client<typeof UsageService>, 'quota'>;
  readonly #now: () => number;
  readonly #logger: Pick<Logger, 'warn'>;
  readonly #replicaId = uuidv7();
  /** When each subject that was asked for out of turn was last answered, since the last report. */
  readonly #answeredMs = new Map<string, number>();
  #replicas = 1;
  #isDue = false;
  #reporting: Promise<void> | null = null;
  #next: Promise<void> | null = null;
  #isBroken = false;

  constructor(deps: {
    limiter: RateLimiter;
    usage: Pick<Client<typeof UsageService>, 'quota'>;
    clock: Pick<Clock, 'monotonic'>;
    logger: Pick<Logger, 'warn'>;
  }) {
    this.#limiter = deps.limiter;
    this.#usage = deps.usage;
    this.#now = deps.clock.monotonic;
    this.#logger = deps.logger;
    this.#limiter.askForShares = (subjectId) => {
      if (this.#replicas <= 1) return undefined;
      if (this.#now() - (this.#answeredMs.get(subjectId) ?? Number.NEGATIVE_INFINITY) < freshMs) return undefined;
      return this.#reportNext().then(() => {
        this.#answeredMs.set(subjectId, this.#now());
      });
    };
  }

  /** Live replicas, this one included, as Usage last said. */
  get replicas(): number {
    return this.#replicas;
  }

  /** The regular report; called every `shareReportMs`. */
  tick(): Promise<void> {
    this.#answeredMs.clear();
    this.#isDue = true;
    return this.#reportNext();
  }

  /** Tells what was asked and takes the shares. One at a time: whoever comes meanwhile gets the one behind it. Never rejects. */
  #reportNext(): Promise<void> {
    if (this.#reporting === null) {
      this.#reporting = this.#report().finally(() => {
        this.#reporting = null;
      });
      return this.#reporting;
    }
    this.#next ??= this.#reporting.then(() => {
      this.#next = null;
      return this.#reportNext();
    });
    return this.#next;
  }

  async #report(): Promise<void> {
    try {
      // Alone, a process needs no shares by name, and what it was asked is nobody's business.
      const wasAlone = this.#replicas <= 1;
      const inTurn = this.#isDue;
      this.#isDue = false;
      await this.#exchange(wasAlone ? [] : this.#limiter.takeDemands(inTurn));
      if (wasAlone && this.#replicas > 1) await this.#exchange(this.#limiter.takeDemands(inTurn));
      this.#isBroken = false;
    } catch (err) {
      if (!this.#isBroken) this.#logger.warn({ err }, 'shares of rate limits cannot be asked for; the last ones stay');
      this.#isBroken = true;
    }
  }

  async #exchange(all: readonly SubjectDemand[]): Promise<void> {
    const busiestFirst = all.length > demandsMax ? [...all].sort((a, b) => b.requests - a.requests) : all;
    const demands = busiestFirst.slice(0, demandsMax).map(({ id, isKey, requests, tokens, ...rest }) => ({
      subject: { kind: isKey ? RateLimitSubjectKind.API_KEY : RateLimitSubjectKind.USER, id },
      requests,
      tokens: BigInt(tokens),
      ...rest,
    }));
    const answer = await this.#usage.quota(
      { replicaId: this.#replicaId, demands },
      { contextValues: callerContext(serviceCaller('inference')), timeoutMs: rpcTimeoutMs },
    );
    this.#replicas = answer.replicas;
    this.#limiter.replicas = answer.replicas;
    this.#limiter.unreportedShare = answer.unreportedFraction;
    for (const { subject, fraction } of answer.shares) this.#limiter.setShare(subject!.id, fraction);
  }
}
