import type { HandlerContext } from '@connectrpc/connect';
import type { InvokeRequest, InvokeResponse, JobHold } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { cancelled, ErrorReason, GatewayError, gatewayError, internalError, invalidRequest } from '#shared/errors.ts';
import { isUuidv7, uuidv7Ms } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { messageOf } from '#shared/message-of.ts';
import { budgetsByNoRoomReason } from '#shared/no-room.ts';
import { callerOf } from '#shared/rpc/caller.ts';
import { cancellationOf } from '#shared/rpc/cancellation.ts';
import { outOfReachText } from '#shared/rpc/connect-errors.ts';
import type { Catalog, ServedModel } from '../catalog/catalog.ts';
import { noMeasures, type PriceVersion, priceAt, priceNow } from '../domain/price.ts';
import type { Budgets } from '../limits/budgets.ts';
import { freeHold, type Hold } from '../limits/hold.ts';
import type { RateLimitBook } from '../limits/rate-limit-book.ts';
import type { RateAdmission, RateLimiter } from '../limits/rate-limiter.ts';
import { failureOf, logBroken, logDisbelieved, MeteredCall, type MeteringJournal } from '../metering/metered-call.ts';
import { admitModel, cannotMeter } from './admission.ts';
import type { AnswerRoom } from './answer-room.ts';
import { Attempts } from './attempts.ts';
import type { CallTools } from './call-tools.ts';
import { Delivery } from './delivery.ts';
import { type HoldAsked, holdBudget, limitToHold } from './hold-budget.ts';
import { answerPart, inBackground, rateLimitState } from './messages.ts';
import { prepareCall } from './prepare-call.ts';
import type { PreparedCall } from './prepared-call.ts';

export type InvokeDeps = {
  catalog: Catalog;
  limiter: RateLimiter;
  rateLimits: Pick<RateLimitBook, 'limitsOf'>;
  budgets: Pick<Budgets, 'hold' | 'holdOfJob'>;
  journal: MeteringJournal;
  clock: Clock;
  logger: Pick<Logger, 'info' | 'warn'>;
  tools: CallTools;
  answerRoom: AnswerRoom;
};

/** Bytes of a body that one message carries to another process: gRPC clients refuse messages above 4 MiB by default. */
const remoteBodyBytesMax = 1024 * 1024;

/** InferenceService.Invoke: admits one model call, runs it on a deployment, meters it and streams its answer. */
export const invoke = (deps: InvokeDeps) =>
  async function* (request: InvokeRequest, context: HandlerContext): AsyncGenerator<InvokeResponse> {
    const caller = callerOf(context);
    refuseForeignFile(request, context);
    const call = await prepareCall(request, deps.tools);
    if (call.background && request.jobId === '') {
      yield inBackground();
      return;
    }
    const nowMs = deps.clock.now();
    const { operation, constraints } = request;
    const asked = { name: call.model, operation, tenantId: caller.tenantId, constraints };
    let model = admitModel(deps.catalog, asked, nowMs);
    if (!deps.journal.healthy) throw cannotMeter();
    const price = priceOf(model, request, nowMs);
    const admitting = admitCall(deps, request, { caller, constraints, call, model, price });
    let admission: Admission;
    if (admitting instanceof Promise) {
      admission = await admitting;
      // Meanwhile its deployments may have been replaced: the former ones take no more calls.
      model = deps.catalog.current(model);
    } else {
      admission = admitting;
    }
    const { rate, hold } = admission;
    const metered = new MeteredCall(deps, {
      caller,
      model: model.name,
      operation,
      streamed: call.streamed,
      price,
      hold,
      job: jobOf(request),
    });
    const cancellation = cancellationOf(context);
    const attempts = new Attempts(deps.catalog, { model, call, metered, signal: cancellation });
    let delivery: Delivery | null = null;
    try {
      let answered = await attempts.answered();
      const admitted = {
        model: model.name,
        retirement: model.publishedRetirement,
        rateLimit: rate === null ? undefined : rateLimitState(rate.reading),
      };
      for (;;) {
        delivery ??= new Delivery(deps, { answered, attempts, metered, admitted, signal: cancellation });
        let part = await delivery.next();
        if (part === null) {
          const { failure } = delivery;
          delivery = null;
          answered = await attempts.answeredElsewhere(failure!);
          continue;
        }
        while (part.body.byteLength > remoteBodyBytesMax && context.protocolName !== 'local') {
          yield answerPart(part.body.subarray(0, remoteBodyBytesMax), part.head, undefined);
          part = answerPart(part.body.subarray(remoteBodyBytesMax), undefined, part.end);
        }
        yield part;
        if (part.end !== undefined) break;
      }
      // What its last event told the client no error tells the log.
      if (delivery.failure !== null) logBroken(deps.logger, metered, delivery.failure.error, attempts.trace);
    } catch (thrown) {
      const error = thrown instanceof GatewayError ? thrown : internalError(thrown);
      error.details.logged = attempts.trace;
      if (delivery !== null) await delivery.abandon(error);
      else await metered.end({ ...failureOf(error), used: noMeasures });
      throw error;
    } finally {
      // The consumer stopped asking for more: the client left between two pieces.
      if (delivery !== null && !metered.ended) await delivery.abandon(cancelled());
      delivery?.close();
      attempts.finish(delivery === null ? { kind: 'none' } : delivery.verdict);
      rate?.release(metered.event.inputTokens + metered.event.outputTokens);
      for (const report of attempts.usageBound.disbelieved) logDisbelieved(deps.logger, metered, report);
    }
  };

type Admission = {
  /** Null for the call of a background job, which AdmitJob has counted. */
  rate: RateAdmission | null;
  hold: Hold;
};

/** Admits a call by its caller's rate limits and budgets, without a promise where neither has to ask another service. */
function admitCall(deps: InvokeDeps, request: InvokeRequest, asked: HoldAsked): Admission | Promise<Admission> {
  const { caller, constraints, call, model } = asked;
  if (request.jobId !== '') {
    const holding = holdForJob(deps, request.hold, asked);
    return holding instanceof Promise ? holding.then((hold) => ({ rate: null, hold })) : { rate: null, hold: holding };
  }
  const held = (rate: RateAdmission, monotonicMs: number): Admission | Promise<Admission> => {
    const refuse = (refusal: unknown): never => {
      rate.release(0);
      throw refusal;
    };
    try {
      const holding = holdBudget(deps.budgets, asked, monotonicMs);
      return holding instanceof Promise ? holding.then((hold) => ({ rate, hold }), refuse) : { rate, hold: holding };
    } catch (refusal) {
      return refuse(refusal);
    }
  };
  const limits = deps.rateLimits.limitsOf(caller.tenantId, constraints);
  const monotonicMs = deps.clock.monotonic();
  const admitting = deps.limiter.admit(caller, limits, estimatedTokens(call, model), monotonicMs);
  if (!(admitting instanceof Promise)) return held(admitting, monotonicMs);
  // The time is read again, since a lease may have run out in the meantime.
  return admitting.then((rate) => held(rate, deps.clock.monotonic()));
}

/** The room that has been held for a job since its submission, or, if it cost nothing then, room for what it costs now. */
function holdForJob({ budgets, clock }: InvokeDeps, held: JobHold | undefined, asked: HoldAsked): Hold | Promise<Hold> {
  const { call, model, price } = asked;
  if (held === undefined)
    return price === null ? freeHold : roomForJob(async () => holdBudget(budgets, asked, clock.monotonic()));
  const hold = budgets.holdOfJob(held);
  if (price !== null) limitToHold(call, model, price, hold);
  return hold;
}

/**
 * Room as `hold` gives it. Whatever fails but a refusal is no fault of the job, which is to wait: OVERLOADED would count as an attempt, since
 * an upstream may have said it.
 */
const roomForJob = (hold: () => Promise<Hold>): Promise<Hold> =>
  hold().catch((error) => {
    if (error instanceof GatewayError && budgetsByNoRoomReason.has(error.reason)) throw error;
    throw gatewayError(ErrorReason.BUDGETS_OUT_OF_REACH, outOfReachText, { cause: error, internal: messageOf(error) });
  });

const jobOf = ({ jobId, eventId, unmeteredReasons }: InvokeRequest) =>
  jobId === '' ? null : { id: jobId, successId: eventId, unmeteredReasons };

/**
 * A background job has the price of its first start, at which reports count it, however late it runs; a model made anew since has none of
 * that time.
 */
function priceOf({ prices }: ServedModel, { jobId, eventId }: InvokeRequest, nowMs: number): PriceVersion | null {
  const priceOfStart = jobId === '' || !isUuidv7(eventId) ? null : priceAt(prices, uuidv7Ms(eventId));
  return priceOfStart ?? priceNow(prices, nowMs);
}

/** A file path from the network would let its sender read this machine's files. */
export function refuseForeignFile({ bodyFile }: InvokeRequest, { protocolName }: HandlerContext): void {
  if (bodyFile !== '' && protocolName !== 'local') {
    throw invalidRequest('body_file', 'A body cannot be given as a file over the network.');
  }
}

/** Roughly: a photo of 2 MB has 1,000 to 3,000 tokens, and so has a minute of uncompressed speech. */
const mediaBytesPerToken = 1024;

/** The tokens held against the tokens-per-minute limit until the call's real use is known. */
export const estimatedTokens = (call: PreparedCall, model: ServedModel): number =>
  call.estimate.inputTokens +
  Math.ceil(call.estimate.mediaBytes / mediaBytesPerToken) +
  Math.min(
    call.estimate.outputTokensMax ?? 0,
    (model.maxOutputTokens || Number.POSITIVE_INFINITY) * call.estimate.answers,
  );
