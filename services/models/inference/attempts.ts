import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { asBuffer } from '#shared/as-buffer.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { GrowingBuffer } from '#shared/growing-buffer.ts';
import { pathOf } from '#shared/operations.ts';
import type { CancelListener, Cancellation } from '#shared/rpc/cancellation.ts';
import type { Catalog, ServedModel } from '../catalog/catalog.ts';
import type { AddedField, DeploymentRuntime, Run, Verdict } from '../catalog/deployment-runtime.ts';
import { chooseDeployment } from '../domain/routing.ts';
import type { MeteredCall } from '../metering/metered-call.ts';
import { errorBytesMax } from '../upstream/error-body.ts';
import type { Upstream, UpstreamHead } from '../upstream/upstream.ts';
import { modelUnavailable } from './admission.ts';
import { PulledExchange } from './exchange.ts';
import { usageBound } from './hold-budget.ts';
import type { AnswerReader, PreparedCall } from './prepared-call.ts';
import { exchangeError, type FailedAttempt, failedAsSaid, failedBy, mayTryElsewhere } from './upstream-errors.ts';
import type { UsageBound } from './usage-bound.ts';

/** A call whose upstream's response head promises an answer. */
export type Answered = {
  exchange: PulledExchange;
  reader: AnswerReader;
  head: UpstreamHead;
  upstream: Pick<Upstream, 'redact'>;
};

/** The most deployments that one call is tried on. */
const attemptsMax = 3;

/** How long to wait for an error's body, in milliseconds: its status already says what to do. */
const errorBodyMsMax = 2_000;

/** Of an upstream's name for a request; OpenAI's have 36 characters. */
const requestIdMax = 255;

/** Tries the deployments of a model until one answers with success. Nothing is tried again after the first byte. */
export class Attempts implements CancelListener {
  /** The most that the call can be charged on its upstream's word. */
  readonly usageBound: UsageBound;
  readonly #catalog: Pick<Catalog, 'current'>;
  readonly #admitted: ServedModel;
  readonly #call: PreparedCall;
  readonly #metered: MeteredCall;
  readonly #signal: Cancellation;
  readonly #operation: Operation;
  readonly #tried = new Set<DeploymentRuntime>();
  /** The fields, added by the gateway, because of which a deployment may have refused the call. */
  readonly #refusedFields = new Map<DeploymentRuntime, ReadonlySet<AddedField>>();
  readonly #startedMs = performance.now();
  /** How long the call may take: as long as the longest of its attempts may, since clients wait for one call. */
  #totalTimeoutMs = 0;
  #running: Running | null = null;
  /** The head of the current attempt's answer. */
  #head: UpstreamHead | null = null;

  /** `operation` is what the upstream is asked for, where that differs from what the call is metered as. */
  constructor(
    catalog: Pick<Catalog, 'current'>,
    {
      model,
      call,
      metered,
      signal,
      operation = metered.event.operation,
    }: { model: ServedModel; call: PreparedCall; metered: MeteredCall; signal: Cancellation; operation?: Operation },
  ) {
    this.usageBound = usageBound(call, model);
    this.#catalog = catalog;
    this.#admitted = model;
    this.#call = call;
    this.#metered = metered;
    this.#signal = signal;
    this.#operation = operation;
    signal.addEventListener('abort', this);
  }

  /** As it is now: while an attempt runs, deployments may be added, and one that is changed is replaced and takes no more calls. */
  get #model(): ServedModel {
    return this.#catalog.current(this.#admitted);
  }

  /** Where the call was sent last, as operators find it in the log. */
  get trace() {
    return {
      model: this.#model.name,
      deployment: this.#metered.event.deploymentId || undefined,
      upstreamRequestId: this.#head?.header('x-request-id')?.slice(0, requestIdMax),
    };
  }

  /** The caller has left. */
  handleEvent(): void {
    this.#running?.exchange.abort();
    this.#running?.exchange.interrupt();
  }

  /** Resolves with the exchange whose head promises an answer of the operation. Rejects with the last failure, as a gateway error. */
  answered(): Promise<Answered> {
    this.#model.retryBudget.deposit();
    return this.#answered();
  }

  /**
   * Resolves with another answer in place of one that turned out to be none and of which nothing was passed on: this counts like an error
   * status. Rejects with its error where no other attempt may be made.
   */
  async answeredElsewhere(failed: FailedAttempt): Promise<Answered> {
    this.#stopOrThrow(failed);
    return this.#answered();
  }

  async #answered(): Promise<Answered> {
    for (;;) {
      const deployment = chooseDeployment(this.#model.deployments, this.#tried);
      if (deployment === null) throw noDeployment(this.#model);
      this.#tried.add(deployment);
      const { exchange, run } = this.#start(deployment, this.#refusedBy(deployment));
      const outcome = await this.#outcome(exchange, deployment.upstream);
      if ('reader' in outcome) {
        run.answered();
        return { exchange, reader: outcome.reader, head: outcome.head, upstream: deployment.upstream };
      }
      this.#stopOrThrow(outcome);
    }
  }

  /** Ends an attempt that failed. Throws its error, unless another may be made. */
  #stopOrThrow({ error, verdict, said }: FailedAttempt): void {
    const { deployment, refusedFields } = this.#running!;
    this.#stop(verdict);
    // The upstream may not support a field that it names, or just repeat what it was sent.
    const named = (this.#call.addedFields?.() ?? []).filter(
      (field) => !refusedFields.has(field) && said.includes(field),
    );
    if (error.reason === ErrorReason.UPSTREAM_REFUSED && named.length > 0) {
      this.#refusedFields.set(deployment, new Set([...refusedFields, ...named]));
      this.#tried.delete(deployment);
      return;
    }
    const { deployments, retryBudget } = this.#model;
    const goesOn =
      mayTryElsewhere(error) &&
      this.#tried.size < attemptsMax &&
      chooseDeployment(deployments, this.#tried) !== null &&
      retryBudget.withdraw();
    if (!goesOn) throw error;
  }

  /**
   * The upstream has said its answer, or will not: its deployment is free for the next call, whatever is still to be done for this one.
   * `verdict` is what the answer says about it. Does nothing the second time.
   */
  free(verdict: Verdict): void {
    const running = this.#running;
    if (running === null || running.isFree) return;
    running.isFree = true;
    const { deployment, run } = running;
    // Not decided by the head alone, since an error may follow it.
    if (verdict.kind === 'good' && this.#refusedFields.has(deployment)) {
      deployment.refusedFields = this.#refusedBy(deployment);
    }
    run.end(verdict);
  }

  /** The call is over; a running exchange is aborted. `verdict` is as for `free`, if that was not called. */
  finish(verdict: Verdict): void {
    this.#signal.removeEventListener('abort', this);
    this.free(verdict);
    this.#stop(verdict);
  }

  /** As far as was seen by now, by this call or others. */
  #refusedBy(deployment: DeploymentRuntime): ReadonlySet<AddedField> {
    const here = this.#refusedFields.get(deployment);
    return here === undefined ? deployment.refusedFields : deployment.refusedFields.union(here);
  }

  #start(deployment: DeploymentRuntime, refusedFields: ReadonlySet<AddedField>): Running {
    const exchange = new PulledExchange();
    const { totalTimeoutMs } = deployment;
    this.#totalTimeoutMs = Math.max(this.#totalTimeoutMs, totalTimeoutMs);
    const leftMs = this.#startedMs + this.#totalTimeoutMs - performance.now();
    const timer = setTimeout(() => exchange.expire(), Math.min(totalTimeoutMs, leftMs));
    const running = { exchange, timer, run: deployment.start(), isFree: false, deployment, refusedFields };
    this.#running = running;
    this.#head = null;
    this.#metered.deploymentId = deployment.id;
    this.usageBound.deployment = deployment.id;
    exchange.attach(
      deployment.upstream.send(
        {
          operation: this.#operation,
          path: pathOf(this.#operation),
          requestId: this.#metered.event.requestId,
          contentType: this.#call.contentType,
          body: this.#call.bodyFor({ upstreamModel: deployment.upstreamModel, refusedFields }),
          headTimeoutMs: deployment.headTimeoutMs,
          idleTimeoutMs: deployment.idleTimeoutMs,
        },
        exchange,
      ),
    );
    return running;
  }

  #stop(verdict: Verdict): void {
    if (this.#running === null) return;
    const { exchange, timer, run, isFree } = this.#running;
    this.#running = null;
    clearTimeout(timer);
    exchange.abort();
    if (!isFree) run.end(verdict);
  }

  async #outcome(
    exchange: PulledExchange,
    upstream: Upstream,
  ): Promise<Pick<Answered, 'reader' | 'head'> | FailedAttempt> {
    for (;;) {
      const coming = exchange.next(this.#signal);
      const event = coming instanceof Promise ? await coming : coming;
      if (event.kind === 'failed') return failedBy(exchangeError(event.failure));
      if (event.kind !== 'head') continue;
      const { head } = event;
      this.#head = head;
      const reader = hasAnswer(head) ? this.#call.reader(head, this.usageBound) : null;
      if (reader !== null && (reader.isAnswer === undefined || (await this.#isAnswer(reader, exchange)))) {
        return { reader, head };
      }
      const body = await this.#errorBody(exchange);
      return failedAsSaid({ head, upstream }, body.toString());
    }
  }

  async #isAnswer(reader: AnswerReader, exchange: PulledExchange): Promise<boolean> {
    const event = await exchange.peek(this.#signal);
    return event.kind !== 'data' || reader.isAnswer!(event.chunk);
  }

  /** As much of an error's body as arrives within its bounds; one that breaks off is good enough for a message. */
  async #errorBody(exchange: PulledExchange): Promise<Buffer> {
    const timer = setTimeout(() => exchange.expire(), errorBodyMsMax);
    const body = new GrowingBuffer();
    try {
      while (body.length < errorBytesMax) {
        const event = await exchange.next(this.#signal);
        if (event.kind !== 'data') break;
        body.appendWhole(asBuffer(event.chunk));
      }
      return body.take().subarray(0, errorBytesMax);
    } finally {
      clearTimeout(timer);
    }
  }
}

type Running = {
  exchange: PulledExchange;
  timer: NodeJS.Timeout;
  run: Run;
  /** Whether the run has ended. */
  isFree: boolean;
  deployment: DeploymentRuntime;
  /** The fields without which it was asked. */
  refusedFields: ReadonlySet<AddedField>;
};

/** Whether the head announces an answer that can be read: success, with a body, in no unrequested encoding. */
const hasAnswer = (head: UpstreamHead): boolean =>
  head.status >= 200 &&
  head.status < 300 &&
  head.status !== 204 &&
  head.status !== 205 &&
  (head.header('content-encoding') ?? 'identity').toLowerCase() === 'identity';

/** Full rather than failing: a client may retry as soon as another call is done. */
function noDeployment(model: ServedModel): GatewayError {
  if (!model.deployments.some(({ available }) => available)) {
    return modelUnavailable(model.name, 'every deployment is failed, stopped or ejected');
  }
  return gatewayError(ErrorReason.NO_CAPACITY, `The model \`${model.name}\` is overloaded. Try again shortly.`, {
    retryAfterMs: 5_000,
    internal: 'every deployment is at its concurrency limit',
  });
}
