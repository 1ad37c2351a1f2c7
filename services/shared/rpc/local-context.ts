import type { DescMethod, DescService } from '@bufbuild/protobuf';
import type { ContextValues, HandlerContext } from '@connectrpc/connect';
import { Code, ConnectError, createContextValues } from '@connectrpc/connect';
import { timerMsMax } from '../clock.ts';
import type { ReportedCall } from './call-report.ts';
import type { CancelListener, Cancellation } from './cancellation.ts';

type HeaderFields = ConstructorParameters<typeof Headers>[0];

/** Something that waits for a part of the call. */
type Interruptible = { interrupt(reason: unknown): void };

/** What a client says about a call besides its message. */
type LocalCallOptions = {
  method: DescMethod;
  signal: AbortSignal | undefined;
  /** The deadline in milliseconds from now; undefined means none. */
  timeoutMs: number | undefined;
  header: HeaderFields | undefined;
  values: ContextValues | undefined;
};

/** The reason of `ctx.signal` after a successful call; made once, since an error costs more than a call. */
const callEnded = new ConnectError('the call has ended', Code.Canceled);

/**
 * A handler's context for a local call. Headers, the signal and the metadata are made when they are read, since most handlers read none of
 * them and each costs as much as the call itself. Therefore it must not be spread into another object.
 */
export class LocalContext implements HandlerContext, ReportedCall, Cancellation {
  readonly method: DescMethod;
  readonly values: ContextValues;
  readonly startedMs: number;
  readonly requestMethod = 'POST';
  readonly protocolName = 'local';
  /** Why the call was aborted; undefined while it runs and after it ended by itself. */
  abortReason: ConnectError | undefined;
  /**
   * Interrupted once, when the call is cancelled or its deadline passes. An object rather than a function: closures kept here were seen to
   * survive young collections, which doubled the cost of a call.
   */
  waiting: Interruptible | undefined;
  /** Whether anything can abort this call: a signal from the client or a deadline. */
  readonly abortable: boolean;

  #ended = false;
  #listener: CancelListener | undefined;
  #controller: AbortController | undefined;
  #requestHeader: Headers | undefined;
  #responseHeader: Headers | undefined;
  #responseTrailer: Headers | undefined;
  readonly #headerInit: HeaderFields | undefined;
  readonly #clientSignal: AbortSignal | undefined;
  #deadlineMs: number | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LocalCallOptions, nowMs: number) {
    this.method = options.method;
    this.values = options.values ?? createContextValues();
    this.startedMs = nowMs;
    this.#headerInit = options.header;
    this.#clientSignal = options.signal;
    this.abortable = options.signal !== undefined || options.timeoutMs !== undefined;
    if (options.signal?.aborted) this.handleEvent();
    else options.signal?.addEventListener('abort', this);
    if (options.timeoutMs !== undefined) {
      this.#deadlineMs = performance.now() + options.timeoutMs;
      this.#timer = setTimeout(deadlinePassed, Math.min(options.timeoutMs, timerMsMax), this);
    }
  }

  get service(): DescService {
    return this.method.parent;
  }

  get url(): string {
    return `local:///${this.method.parent.typeName}/${this.method.name}`;
  }

  get requestHeader(): Headers {
    this.#requestHeader ??= new Headers(this.#headerInit);
    return this.#requestHeader;
  }

  get responseHeader(): Headers {
    this.#responseHeader ??= new Headers();
    return this.#responseHeader;
  }

  get responseTrailer(): Headers {
    this.#responseTrailer ??= new Headers();
    return this.#responseTrailer;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.abortReason !== undefined) this.#controller.abort(this.abortReason);
      else if (this.#ended) this.#controller.abort(callEnded);
    }
    return this.#controller.signal;
  }

  /** Whether the call was given up. Unlike this, `signal` also aborts when the call ends by itself. */
  get aborted(): boolean {
    return this.abortReason !== undefined;
  }

  /** For the handler, which has one listener at a time (Cancellation). */
  addEventListener(_type: 'abort', listener: CancelListener): void {
    this.#listener = listener;
  }

  removeEventListener(_type: 'abort', listener: CancelListener): void {
    if (this.#listener === listener) this.#listener = undefined;
  }

  timeoutMs(): number | undefined {
    return this.#deadlineMs === undefined ? undefined : this.#deadlineMs - performance.now();
  }

  /** The client's signal fired (EventListenerObject, so that no closure is made per call). */
  handleEvent(): void {
    this.abort(ConnectError.from(this.#clientSignal?.reason, Code.Canceled));
  }

  /** Ends the call early: tells the handler through its listener and `signal`, and whoever waits through `waiting`. */
  abort(reason: ConnectError): void {
    if (this.#ended || this.abortReason !== undefined) return;
    this.abortReason = reason;
    this.#release();
    this.#listener?.handleEvent();
    this.#controller?.abort(reason);
    this.waiting?.interrupt(reason);
  }

  /** The call is over; as on the network, `signal` fires then too. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#release();
    this.#controller?.abort(callEnded);
  }

  /** The answer, unless the call is aborted first; a handler that ignores its signal does not delay its client. */
  until<T>(answer: Promise<T> | T): Promise<T> | T {
    if (this.abortReason !== undefined) throw this.abortReason;
    if (!this.abortable || !(answer instanceof Promise)) return answer;
    return new Promise<T>((resolve, reject) => {
      this.waiting = { interrupt: reject };
      answer.then(resolve, reject);
    });
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#clientSignal?.removeEventListener('abort', this);
  }
}

const deadlinePassed = (context: LocalContext): void =>
  context.abort(new ConnectError('the deadline of the call passed', Code.DeadlineExceeded));
