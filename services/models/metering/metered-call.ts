import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { errorCode, statusOf } from '#shared/error-table.ts';
import { type ErrorReason, type GatewayError, reasonName } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { endpointOf } from '#shared/operations.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import { allMeasures, type Measures, noMeasures, type PriceVersion, priceUsage } from '../domain/price.ts';
import type { Hold } from '../limits/hold.ts';
import type { Journal } from './journal.ts';
import type { MeteredEvent, MeteredProgress } from './metered-event.ts';

export type MeteringJournal = Pick<
  Journal<MeteredEvent, MeteredProgress>,
  'begin' | 'progress' | 'end' | 'drop' | 'healthy'
>;

/** What is known of a call when it is admitted. */
type AdmittedCall = {
  caller: Pick<Caller, 'tenantId' | 'userId' | 'apiKeyId' | 'sessionId' | 'requestId'>;
  model: string;
  operation: Operation;
  streamed: boolean;
  price: PriceVersion | null;
  /** What budgets hold for it, settled with its end. */
  hold: Hold;
  /** Null for a call that belongs to no job. */
  job: JobMetering | null;
};

/** How a background job's call is metered: reports count a job once, however often it had to run. */
type JobMetering = {
  id: string;
  /** The id of the event for its success. Usage keeps one event per id, so it is charged once. */
  successId: string;
  /** Failures that produce no event, since the job repeats its call or was cancelled. */
  unmeteredReasons: readonly ErrorReason[];
};

/** How a call ended; `reason` is why it failed, as far as known. */
export type CallOutcome = {
  success: boolean;
  status: number;
  errorCode: string;
  reason?: ErrorReason | undefined;
  used: Measures;
};

/** The end of a failed call or utterance, with the status of its error. */
export const failureOf = (error: GatewayError): Omit<CallOutcome, 'used'> => ({
  success: false,
  status: statusOf(error),
  errorCode: errorCode(error) ?? '',
  reason: error.reason,
});

/** What a deployment's upstream reported, but its call cannot have used. */
export type DisbelievedReport = { deployment: string; reported: Partial<Measures> };

/** Logs that an upstream reported more than a call, which has ended, can have used. */
export function logDisbelieved(
  logger: Pick<Logger, 'warn'>,
  { event }: Pick<MeteredCall, 'event'>,
  { deployment, reported }: DisbelievedReport,
): void {
  const { model, requestId } = event;
  logger.warn(
    { model, deployment, requestId, reported, charged: allMeasures(event) },
    'an upstream reported more usage than its call can have had: what the gateway counted is charged',
  );
}

/** Logs why a stream broke off: after its first words, an error is an event of it, and for its RPC a success. */
export function logBroken(
  logger: Pick<Logger, 'info'>,
  { event }: Pick<MeteredCall, 'event'>,
  { reason, details }: GatewayError,
  trace: object,
): void {
  const { requestId, tenantId, userId, apiKeyId } = event;
  const fields = { requestId, tenantId, userId, apiKeyId: apiKeyId || undefined, ...trace };
  logger.info({ ...fields, reason: reasonName(reason), internal: details.internal }, 'a stream broke off');
}

/** One admitted call on its way through the journal: begun at construction, ended exactly once. */
export class MeteredCall {
  readonly #journal: MeteringJournal;
  readonly #clock: Clock;
  readonly #price: PriceVersion | null;
  readonly #startedMs: number;
  readonly #event: MeteredEvent;
  readonly #hold: Hold;
  /** The call's name in the journal. */
  readonly #id = uuidv7();
  readonly #job: JobMetering | null;
  #progressTokens = 0;
  #ended = false;

  constructor({ journal, clock }: { journal: MeteringJournal; clock: Clock }, call: AdmittedCall) {
    const { caller, price, hold, job } = call;
    this.#hold = hold;
    this.#job = job;
    this.#journal = journal;
    this.#clock = clock;
    this.#price = price;
    this.#startedMs = clock.monotonic();
    // Written out: spreads build the object field by field, which costs more than everything else here.
    this.#event = {
      id: this.#id,
      tenantId: caller.tenantId,
      userId: caller.userId,
      apiKeyId: caller.apiKeyId,
      sessionId: caller.sessionId,
      model: call.model,
      endpoint: endpointOf(call.operation),
      operation: call.operation,
      streamed: call.streamed,
      requestId: caller.requestId,
      jobId: job?.id ?? '',
      leaseIds: hold.leaseIds,
      inputTokens: 0,
      cachedInputTokens: 0,
      outputTokens: 0,
      images: 0,
      audioMs: 0,
      characters: 0,
      deploymentId: '',
      success: false,
      status: 0,
      errorCode: '',
      costNanoUsd: 0n,
      priceVersionId: price?.id ?? '',
      latencyMs: 0,
      ttftMs: null,
    };
    journal.begin(this.#id, this.#event);
  }

  get event(): Readonly<MeteredEvent> {
    return this.#event;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** The deployment of the current attempt. */
  set deploymentId(id: string) {
    this.#event.deploymentId = id;
    this.#event.ttftMs = null;
  }

  /** The first body byte of the current attempt has arrived. */
  firstByte(): void {
    this.#event.ttftMs ??= this.#elapsedMs();
  }

  /**
   * Resolves once the journal knows of this many output tokens: they may then be delivered, and a killed process still charges what its
   * client got. No promise when there is nothing new.
   */
  progress(outputTokens: number): Promise<void> | undefined {
    if (outputTokens <= this.#progressTokens) return undefined;
    this.#progressTokens = outputTokens;
    const costNanoUsd = String(this.#cost({ ...noMeasures, outputTokens }));
    return new Promise((resolve) => this.#journal.progress(this.#id, { outputTokens, costNanoUsd }, resolve));
  }

  /**
   * Ends the call. Resolves once its event, if any, can no longer be lost, and near a budget's limit once Billing knows which room is free
   * again: then the last bytes may be sent.
   */
  end(outcome: CallOutcome): Promise<void> {
    this.#ended = true;
    // Nobody gets a partial answer of a job's call.
    const used = this.#job !== null && !outcome.success ? noMeasures : outcome.used;
    if (outcome.success && this.#job !== null) this.#event.id = this.#job.successId || this.#id;
    Object.assign(this.#event, used);
    this.#event.success = outcome.success;
    this.#event.status = outcome.status;
    this.#event.errorCode = outcome.errorCode;
    // A failure that used nothing is not even charged the price per request: nothing was served.
    const isServed = outcome.success || Object.values(used).some((measure) => measure > 0);
    this.#event.costNanoUsd = isServed ? this.#cost(used) : 0n;
    this.#event.latencyMs = this.#elapsedMs();
    const isKept = this.#hold.isOfJob === true && !outcome.success;
    if (isKept) this.#event.leaseIds = [];
    const written = this.#write(outcome);
    const settled = isKept ? undefined : this.#hold.settle(this.#event.costNanoUsd);
    return settled === undefined ? written : settled.then(() => written);
  }

  #write({ reason }: CallOutcome): Promise<void> {
    if (reason !== undefined && this.#job?.unmeteredReasons.includes(reason)) {
      this.#journal.drop(this.#id);
      return Promise.resolve();
    }
    return new Promise((resolve) => this.#journal.end(this.#id, this.#event, resolve));
  }

  #cost(used: Measures): bigint {
    return this.#price === null ? 0n : priceUsage(this.#price, used);
  }

  #elapsedMs(): number {
    return Math.round(this.#clock.monotonic() - this.#startedMs);
  }
}
