import type { InvokeEnd, InvokeHead, InvokeResponse } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { errorCode, statusOf } from '#shared/error-table.ts';
import { cancelled, ErrorReason, type GatewayError } from '#shared/errors.ts';
import type { Cancellation } from '#shared/rpc/cancellation.ts';
import { oneBuffer } from '../bytes/one-buffer.ts';
import type { Verdict } from '../catalog/deployment-runtime.ts';
import { allMeasures, type Measures, noMeasures } from '../domain/price.ts';
import { failureOf, type MeteredCall } from '../metering/metered-call.ts';
import type { AnswerRoom, AnswerShare } from './answer-room.ts';
import type { Answered, Attempts } from './attempts.ts';
import type { PulledExchange } from './exchange.ts';
import { type AdmittedHead, answerEnd, answerHead, answerPart } from './messages.ts';
import type { AnswerEnd, AnswerReader } from './prepared-call.ts';
import { exchangeError, type FailedAttempt, failedAsSaid, failedBy, upstreamFailed } from './upstream-errors.ts';

/** Clients get this status whichever success the upstream reported. */
const statusOk = 200;

/** A comment line keeps proxies from closing a silent stream; every client ignores it (openai-contract.md section 3). */
const keepAlive = Buffer.from(': keep-alive\n\n');
const keepAliveMs = 15_000;
/** How often the stream is checked for silence. */
const keepAliveCheckMs = 3_000;

/** Delivers the answer of an upstream to the caller and meters it, however it ends. */
export class Delivery {
  /** What broke the answer off; null: nothing did. */
  failure: FailedAttempt | null = null;
  readonly #answered: Answered;
  readonly #attempts: Pick<Attempts, 'free'>;
  readonly #exchange: PulledExchange;
  readonly #reader: AnswerReader;
  readonly #metered: MeteredCall;
  readonly #clock: Clock;
  readonly #signal: Pick<Cancellation, 'aborted'>;
  readonly #isSse: boolean;
  readonly #room: AnswerRoom;
  readonly #share: AnswerShare;
  /** Checks whether an event stream has been silent for long. */
  readonly #silence: NodeJS.Timeout | undefined;
  #sentMs: number;
  /** The head, until the first message carries it. */
  #unsentHead: InvokeHead | undefined;

  constructor(
    { clock, answerRoom }: { clock: Clock; answerRoom: AnswerRoom },
    options: {
      answered: Answered;
      attempts: Pick<Attempts, 'free'>;
      metered: MeteredCall;
      admitted: AdmittedHead;
      signal: Pick<Cancellation, 'aborted'>;
    },
  ) {
    const { answered, metered } = options;
    const { exchange, reader } = answered;
    this.#answered = answered;
    this.#attempts = options.attempts;
    this.#exchange = exchange;
    this.#reader = reader;
    this.#metered = metered;
    this.#clock = clock;
    this.#signal = options.signal;
    this.#room = answerRoom;
    this.#share = { userId: metered.event.userId, bytes: 0, wake: () => exchange.interrupt() };
    this.#unsentHead = answerHead(options.admitted, statusOk, reader.contentType);
    this.#isSse = reader.passesOn && reader.contentType.startsWith('text/event-stream');
    this.#sentMs = clock.monotonic();
    if (this.#isSse) this.#silence = setInterval(() => exchange.interrupt(), keepAliveCheckMs);
  }

  /**
   * The next message of the answer; the first one carries the head, the last one the end. Null: what came is no answer, as `failure` says,
   * and nothing of it was passed on or metered, so another upstream may answer.
   */
  next(): Promise<InvokeResponse | null> {
    return this.#reader.passesOn ? this.#nextPiece() : this.#whole();
  }

  /** Stops delivering: aborts the upstream and meters what came. Does nothing for an answer that has ended. */
  async abandon(error: GatewayError): Promise<void> {
    clearInterval(this.#silence);
    if (this.#metered.ended) return;
    this.failure = failedBy(error);
    this.#exchange.abort();
    this.#attempts.free(this.verdict);
    const used = await this.#usedSoFar();
    const failure = failureOf(error);
    if (this.#unsentHead === undefined && error.reason !== ErrorReason.CANCELLED) failure.status = statusOk;
    await this.#metered.end({ ...failure, used });
  }

  /** What is charged of an answer that broke off: what was passed on, should that be all that can be told. Never rejects. */
  async #usedSoFar(): Promise<Measures> {
    try {
      const end = this.#reader.end(true);
      return this.#isWordless(end) ? noMeasures : await measuresOfEnd(end);
    } catch {
      return { ...noMeasures, outputTokens: this.#reader.outputTokensSoFar };
    }
  }

  /** Whether nothing was produced, or reported to be: a stream that broke off before its first words is free. */
  #isWordless({ reported }: AnswerEnd): boolean {
    const { outputTokens, images, characters } = reported === null ? noMeasures : allMeasures(reported);
    return this.#reader.outputTokensSoFar + outputTokens + images + characters === 0;
  }

  /** What the answer says about its deployment. */
  get verdict(): Verdict {
    if (this.#exchange.isReaderLate) return { kind: 'none' };
    const verdict: Verdict = this.failure?.verdict ?? { kind: 'good' };
    // Its client left before anything but the head had come: an upstream that hangs would otherwise look healthy.
    return verdict.kind === 'good' && this.#metered.event.ttftMs === null ? { kind: 'none' } : verdict;
  }

  /** The caller has taken the answer, as far as there is one. */
  close(): void {
    this.#room.hold(this.#share, 0);
  }

  /** The answer in one message, once it is whole. */
  async #whole(): Promise<InvokeResponse | null> {
    for (;;) {
      const coming = this.#exchange.next(this.#signal);
      const event = coming instanceof Promise ? await coming : coming;
      if (event.kind === 'data') {
        this.#metered.firstByte();
        this.#reader.push(event.chunk);
        this.#room.hold(this.#share, this.#reader.heldBytes);
        while (!this.#room.hasRoom(this.#share) && !this.#exchange.failed) {
          if (this.#signal.aborted) throw cancelled();
          await this.#exchange.arrival();
        }
      } else if (event.kind === 'failed') {
        throw exchangeError(event.failure);
      } else if (event.kind === 'end') {
        break;
      }
    }
    const reading = this.#reader.readBeforehand?.();
    if (reading !== undefined) await reading;
    const end = this.#reader.end(false);
    this.failure = this.#failureOf(end);
    if (this.failure !== null) {
      this.close();
      return null;
    }
    this.#attempts.free(this.verdict);
    const measured = measuresOfEnd(end);
    const used = measured instanceof Promise ? await measured : measured;
    await this.#metered.end({ success: true, status: statusOk, errorCode: '', used });
    const body = oneBuffer(end.forwardWith?.(used) ?? end.forward);
    this.#unsentHead!.contentLength = BigInt(body.byteLength);
    return this.#part(body, answerEnd(this.#metered.event));
  }

  /** The next piece of an answer that is passed on as it comes. */
  async #nextPiece(): Promise<InvokeResponse | null> {
    // The caller has taken the one before.
    this.#room.hold(this.#share, this.#reader.heldBytes);
    while (!this.#reader.complete) {
      const mayGoOn = this.#room.hasRoom(this.#share) || this.#exchange.failed;
      const event = mayGoOn ? this.#exchange.take() : undefined;
      if (event === undefined) {
        if (this.#signal.aborted) throw cancelled();
        await this.#exchange.arrival();
        if (this.#isSse && this.#clock.monotonic() - this.#sentMs > keepAliveMs - keepAliveCheckMs) {
          this.#sentMs = this.#clock.monotonic();
          return this.#part(keepAlive);
        }
      } else if (event.kind === 'data') {
        const piece = oneBuffer(this.#read(event.chunk));
        this.#room.hold(this.#share, this.#reader.heldBytes + piece.byteLength);
        if (piece.byteLength === 0) continue;
        this.#metered.firstByte();
        await this.#metered.progress(this.#reader.outputTokensSoFar);
        this.#sentMs = this.#clock.monotonic();
        return this.#part(piece);
      } else if (event.kind === 'failed') {
        return this.#lastPiece(failedBy(exchangeError(event.failure)));
      } else if (event.kind === 'end') {
        break;
      }
    }
    return this.#lastPiece(null);
  }

  /** `failure`: what broke the answer off. */
  async #lastPiece(failure: FailedAttempt | null): Promise<InvokeResponse | null> {
    clearInterval(this.#silence);
    const end = this.#reader.end(failure !== null);
    this.failure = failure ?? this.#failureOf(end);
    const error = this.failure?.error ?? null;
    const nothingSent = this.#unsentHead !== undefined;
    if (nothingSent && error !== null && failure === null) {
      this.close();
      return null;
    }
    if (error === null) this.#metered.firstByte();
    this.#attempts.free(this.verdict);
    const isFree = error !== null && (nothingSent || this.#isWordless(end));
    const used = isFree ? noMeasures : await measuresOfEnd(end);
    const outcome = error === null ? { success: true, errorCode: '' } : failureOf(error);
    await this.#metered.end({ ...outcome, status: error !== null && nothingSent ? statusOf(error) : statusOk, used });
    // Before the first byte a failure still has a status of its own. After it, raw bytes cannot say that something failed: the connection
    // must break, so that nobody takes them for a complete answer.
    if (error !== null && (nothingSent || !this.#isSse)) throw error;
    const forward = error === null ? (end.forwardWith?.(used) ?? end.forward) : [...end.forward, errorFrame(error)];
    return this.#part(oneBuffer(forward), answerEnd(this.#metered.event));
  }

  /** Why an ended answer is none; null: it is complete. */
  #failureOf({ failure, said }: AnswerEnd): FailedAttempt | null {
    if (said != null) return failedAsSaid(this.#answered, said);
    return failure === null ? null : failedBy(upstreamFailed(failure));
  }

  #part(body: Uint8Array, end?: InvokeEnd): InvokeResponse {
    const head = this.#unsentHead;
    this.#unsentHead = undefined;
    return answerPart(body, head, end);
  }

  /** What may be passed on of this chunk and of those that have arrived after it: ten events in one write cost little more than one. */
  #read(first: Uint8Array): readonly Uint8Array[] {
    let pieces = this.#reader.push(first);
    while (!this.#reader.complete) {
      const chunk = this.#exchange.takeData();
      if (chunk === undefined) break;
      pieces = pieces.concat(this.#reader.push(chunk));
    }
    return pieces;
  }
}

/** What the upstream reported, or else what the gateway counts. A reported zero counts as zero. */
const measuresOfEnd = (end: AnswerEnd): Measures | Promise<Measures> =>
  end.reported === null ? end.counted().then(allMeasures) : allMeasures(end.reported);

/** An error after the first byte: one frame, which every client shows, and no `[DONE]` (openai-contract.md section 3). */
function errorFrame(error: GatewayError): Uint8Array {
  const isRefusal =
    error.reason === ErrorReason.UPSTREAM_REFUSED || error.reason === ErrorReason.CONTEXT_LENGTH_EXCEEDED;
  const type = isRefusal ? 'invalid_request_error' : 'server_error';
  const { message, details } = error;
  const body = { error: { message, type, param: details.param ?? null, code: errorCode(error) } };
  return Buffer.from(`data: ${JSON.stringify(body)}\n\n`);
}
