import type { MessageInitShape } from '@bufbuild/protobuf';
import type { CallerConstraints, TranscribeRequestSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';

type Request = MessageInitShape<typeof TranscribeRequestSchema>;

/** Characters of events that may queue up, and events, which may be empty, before the socket is no longer read. */
const waitingLengthMax = 1024 * 1024;
const waitingMax = 1_000;
/** How often events that are held back are looked at again, in milliseconds. */
const heldBackMs = 100;

/** The events of a socket, as the stream of requests that Transcribe takes. */
export class ClientEvents implements AsyncIterable<Request> {
  readonly #start: Request;
  readonly #waiting: string[] = [];
  #waitingLength = 0;
  /** The length of the event that is being dealt with. */
  #takenLength = 0;
  #isOver = false;
  #isFull = false;
  #wake: (() => void) | null = null;
  #constraints: CallerConstraints | null = null;
  /** Called when the socket may be read again. */
  onRoom: () => void = () => {};
  /** Called when an event has been dealt with. */
  onDone: () => void = () => {};
  /** While it is true, events wait; they are dropped if the client leaves meanwhile. */
  isHeldBack: () => boolean = () => false;

  constructor(start: Request) {
    this.#start = start;
  }

  /** Characters of the events that have yet to be dealt with. */
  get heldLength(): number {
    return this.#waitingLength + this.#takenLength;
  }

  get #hasRoom(): boolean {
    return this.#waitingLength <= waitingLengthMax && this.#waiting.length <= waitingMax;
  }

  /** Takes an event; false when no more should be read for now. */
  push(json: string): boolean {
    this.#waiting.push(json);
    this.#waitingLength += json.length;
    this.#awake();
    this.#isFull = !this.#hasRoom;
    return !this.#isFull;
  }

  /** The caller's key was changed; delivered ahead of queued events. */
  constrain(constraints: CallerConstraints): void {
    this.#constraints = constraints;
    this.#awake();
  }

  /** The client sends nothing more. */
  end(): void {
    this.#isOver = true;
    this.#awake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Request> {
    yield this.#start;
    for (;;) {
      if (this.#constraints !== null) {
        const value = this.#constraints;
        this.#constraints = null;
        yield { message: { case: 'constraints', value } };
        continue;
      }
      if (this.#waiting.length > 0 && this.isHeldBack()) {
        if (this.#isOver) return;
        await this.#awoken(heldBackMs);
        continue;
      }
      const json = this.#waiting.shift();
      if (json !== undefined) {
        this.#waitingLength -= json.length;
        this.#takenLength = json.length;
        if (this.#isFull && this.#hasRoom) {
          this.#isFull = false;
          this.onRoom();
        }
        yield { message: { case: 'eventJson', value: json } };
        this.#takenLength = 0;
        this.onDone();
      } else if (this.#isOver) {
        return;
      } else {
        await this.#awoken();
      }
    }
  }

  /** Resolves when there is something to do, after `msMax` at the latest. */
  async #awoken(msMax?: number): Promise<void> {
    const timer = msMax === undefined ? undefined : setTimeout(() => this.#awake(), msMax);
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    clearTimeout(timer);
  }

  #awake(): void {
    this.#wake?.();
    this.#wake = null;
  }
}
