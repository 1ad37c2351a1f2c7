import { create } from '@bufbuild/protobuf';
import { type TranscribeResponse, TranscribeResponseSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { eventJson, type ServerEvent } from './server-event.ts';

/** How many characters of events may wait for a client that does not read, and how many events, which may be short. */
export const waitingLengthMax = 4 * 1024 * 1024;
export const waitingMax = 10_000;

/** The events for the client of a session, in order; they are read as fast as it can take them. */
export class ServerEvents implements AsyncIterable<TranscribeResponse> {
  readonly #waiting: string[] = [];
  #waitingLength = 0;
  #end: { error: unknown } | 'over' | null = null;
  #wake: (() => void) | null = null;
  readonly #failed = new AbortController();

  /** Aborted when the session ends with an error, though events may still wait. */
  get failed(): AbortSignal {
    return this.#failed.signal;
  }

  emit(event: ServerEvent): void {
    this.pass(eventJson(event));
  }

  /** Passes on an event that is already JSON. */
  pass(json: string): void {
    if (this.#end !== null) return;
    this.#waiting.push(json);
    this.#waitingLength += json.length;
    if (this.#waitingLength > waitingLengthMax || this.#waiting.length > waitingMax) {
      this.#waiting.length = 0;
      this.fail(gatewayError(ErrorReason.CANCELLED, 'The client does not read its events.'));
    } else this.#awake();
  }

  /** The session ends with an error, after the waiting events. */
  fail(error: unknown): void {
    if (this.#end !== null) return;
    this.#end = { error };
    this.#awake();
    this.#failed.abort();
  }

  /** The session is over. */
  close(): void {
    this.#end ??= 'over';
    this.#awake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<TranscribeResponse> {
    for (;;) {
      const json = this.#waiting.shift();
      if (json !== undefined) {
        this.#waitingLength -= json.length;
        yield create(TranscribeResponseSchema, { message: { case: 'eventJson', value: json } });
      } else if (this.#end === 'over') {
        return;
      } else if (this.#end !== null) {
        throw this.#end.error;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  #awake(): void {
    this.#wake?.();
    this.#wake = null;
  }
}
