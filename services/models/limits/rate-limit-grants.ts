import type { Client } from '@connectrpc/connect';
import { RateLimitSubjectKind } from '#gen/modelgateway/usage/v1/rate_limit_pb.ts';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';
import { asService } from '#shared/rpc/caller.ts';
import type { RateLimiter, SubjectDemand } from './rate-limiter.ts';

/** How often a replica reports. Usage considers it dead after five times as long. */
export const grantReportMs = 1_000;

const rpcTimeoutMs = 2_000;
const demandsPerCall = 10_000;

/**
 * Gets a process's rate limiter its grants of limits that several replicas share (design.md, Snapshots). A process that is alone only
 * reports that it is alive, once a second, and counts by itself.
 */
export class RateLimitGrants {
  readonly #limiter: RateLimiter;
  readonly #usage: Pick<Client<typeof UsageService>, 'quota'>;
  readonly #failures: RepeatedFailures;
  readonly #replicaId = uuidv7();
  #isDue = false;
  /** Usage was away at the last regular report: all replicas are dead to each other then, until each has reported again. */
  #wasAway = false;
  #reporting: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  constructor(deps: {
    limiter: RateLimiter;
    usage: Pick<Client<typeof UsageService>, 'quota'>;
    logger: FailureLogger;
  }) {
    this.#limiter = deps.limiter;
    this.#usage = deps.usage;
    this.#failures = new RepeatedFailures('sharing rate limits through Usage', deps.logger);
    this.#limiter.askForGrants = () => this.#reportNext();
  }

  /** The regular report; called every `grantReportMs`. */
  tick(): Promise<void> {
    this.#isDue = true;
    return this.#reportNext();
  }

  /** One report at a time: everybody who asks meanwhile gets the next one. Never rejects. */
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
    const inTurn = this.#isDue;
    this.#isDue = false;
    try {
      // A process that is alone needs no grants, and its counts are nobody else's business.
      const wasAlone = this.#limiter.replicas <= 1;
      const mayBeFewer = inTurn && !this.#wasAway;
      if (wasAlone) await this.#exchange([], mayBeFewer);
      if (!wasAlone || this.#limiter.replicas > 1) await this.#exchange(this.#limiter.takeDemands(inTurn), mayBeFewer);
      this.#limiter.isCutOff = false;
      if (inTurn) this.#wasAway = false;
      this.#failures.succeeded();
    } catch (err) {
      this.#limiter.isCutOff = true;
      this.#wasAway = true;
      this.#failures.failed(err, 'failed; until it works again, this process goes by a fixed share of each');
    }
  }

  /** `mayBeFewer`: whether replicas that Usage does not count are believed to be gone. */
  async #exchange(demands: readonly SubjectDemand[], mayBeFewer: boolean): Promise<void> {
    const call = demands.slice(0, demandsPerCall);
    const rest = demands.slice(demandsPerCall);
    let replicas: number;
    try {
      const answer = await this.#usage.quota(
        { replicaId: this.#replicaId, demands: call.map(demandMessage) },
        { ...asService('inference'), timeoutMs: rpcTimeoutMs },
      );
      for (const { subject, tokens, concurrentRequests: concurrent, ...grant } of answer.shares) {
        this.#limiter.grant({ ...grant, id: subject!.id, tokens: Number(tokens), concurrent });
      }
      replicas = answer.replicas;
    } catch (error) {
      this.#limiter.takeBack(demands);
      throw error;
    }
    // At the end: a process that is alone gives no grants back, and would keep those of the remaining calls.
    if (rest.length > 0) await this.#exchange(rest, mayBeFewer);
    else this.#limiter.replicas = mayBeFewer ? replicas : Math.max(replicas, this.#limiter.replicas);
  }
}

const demandMessage = ({ id, isKey, limits, requests, tokens, concurrent }: SubjectDemand) => ({
  subject: { kind: isKey ? RateLimitSubjectKind.API_KEY : RateLimitSubjectKind.USER, id },
  limits,
  requests: requests.wanted,
  requestsSettled: BigInt(requests.settled),
  tokens: BigInt(tokens.wanted),
  tokensSettled: BigInt(tokens.settled),
  concurrentRequests: concurrent,
});
