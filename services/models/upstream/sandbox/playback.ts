import type { UpstreamExchange, UpstreamFailure, UpstreamHandler } from '../upstream.ts';
import type { Answer } from './answer.ts';
import type { SandboxKnobs } from './knobs.ts';

/** Pieces delivered in one turn of the event loop, as a socket would deliver what has come in the meantime. */
const piecesPerTurn = 32;

type PlaybackOptions = {
  handler: UpstreamHandler;
  headTimeoutMs: number;
  idleTimeoutMs: number;
  /** Called once, however the exchange ends. */
  onOver(playback: Playback): void;
};

/** Plays an answer to a handler: head, pieces, end. It owns the exchange's only timer. */
export class Playback implements UpstreamExchange {
  readonly #options: PlaybackOptions;
  #knobs: SandboxKnobs = {};
  #pieces: Iterator<Uint8Array> | undefined;
  #piecesSent = 0;
  #cancelTimer: (() => void) | undefined;
  #inTurn = false;
  #paused = false;
  #over = false;

  constructor(options: PlaybackOptions) {
    this.#options = options;
  }

  /** Delivers the answer in the pace of the knobs. */
  play(answer: Answer, knobs: SandboxKnobs): void {
    if (this.#over) return;
    this.#knobs = knobs;
    this.#wait(knobs.latencyMs ?? 0, this.#options.headTimeoutMs, 'head', () => {
      this.#pieces = answer.pieces[Symbol.iterator]();
      this.#options.handler.onHead({ status: answer.status, header: (name) => answer.headers[name] });
      this.#turn();
    });
  }

  /** Ends the exchange with a failure. */
  fail(failure: UpstreamFailure): void {
    if (!this.#close()) return;
    this.#options.handler.onError(failure);
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    const started = this.#pieces !== undefined;
    if (started && !this.#over && !this.#inTurn && this.#cancelTimer === undefined) this.#nextTurn();
  }

  abort(): void {
    this.#close();
  }

  #turn(): void {
    this.#inTurn = true;
    const pacing = this.#deliver();
    this.#inTurn = false;
    // A handler that paused and resumed itself meanwhile is not to be started twice, so this is decided only now.
    if (this.#over || this.#paused) return;
    if (pacing > 0) this.#wait(pacing, this.#options.idleTimeoutMs, 'body', () => this.#turn());
    else this.#nextTurn();
  }

  /** Hands over what this turn may; the milliseconds until the next turn. */
  #deliver(): number {
    const delayMs = this.#knobs.chunkDelayMs ?? 0;
    for (let i = 0; i < piecesPerTurn && !this.#paused && !this.#over; i++) {
      if (this.#piecesSent === this.#knobs.cutAfterChunks) {
        this.fail({ kind: 'reset', message: `sandbox: cut after ${this.#piecesSent} pieces` });
        break;
      }
      const piece = this.#nextPiece();
      if (piece === undefined) break;
      this.#piecesSent++;
      this.#options.handler.onData(piece);
      if (delayMs > 0) return delayMs;
    }
    return 0;
  }

  /** The next piece; undefined when the exchange has ended instead. */
  #nextPiece(): Uint8Array | undefined {
    try {
      const next = this.#pieces!.next();
      if (next.done !== true) return next.value;
    } catch (error) {
      this.fail({ kind: 'protocol', message: `sandbox: ${String(error)}` });
      return undefined;
    }
    if (this.#close()) this.#options.handler.onEnd();
    return undefined;
  }

  /** False when the exchange was over already. */
  #close(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#options.onOver(this);
    return true;
  }

  #nextTurn(): void {
    const immediate = setImmediate(() => {
      this.#cancelTimer = undefined;
      this.#turn();
    });
    this.#cancelTimer = () => clearImmediate(immediate);
  }

  /** Waits, but no longer than the caller's patience. */
  #wait(delayMs: number, limitMs: number, what: 'head' | 'body', next: () => void): void {
    if (delayMs <= 0) {
      next();
      return;
    }
    const timer = setTimeout(
      () => {
        this.#cancelTimer = undefined;
        if (delayMs > limitMs && !(what === 'body' && this.#paused)) {
          this.fail({ kind: 'timeout', message: `sandbox: no ${what} within ${limitMs} ms` });
        } else next();
      },
      Math.min(delayMs, limitMs),
    );
    this.#cancelTimer = () => clearTimeout(timer);
  }
}
