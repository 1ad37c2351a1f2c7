import { cancelled, ErrorReason, GatewayError, internalError, invalidRequest } from '#shared/errors.ts';
import { inTurns } from '#shared/in-turns.ts';
import { type Backend, type BackendContext, utteranceMsMax, utteranceMsMin } from './backend.ts';
import type { MeteredItem } from './metered-item.ts';
import { decodeSamples, joinSamples, sampleBytesOf, sampleRateOf, samplesMs } from './pcm.ts';
import { completedEvent, deltaEvent, errorEvent, failedEvent, itemEvents, newItemId } from './server-event.ts';
import { waitingLengthMax, waitingMax } from './server-events.ts';
import { promptBytesOf, type SessionConfig } from './session-config.ts';
import { durationUsage, type Transcriber, type Utterance } from './transcriber.ts';
import { speechMsMin, VoiceActivity } from './voice-activity.ts';

/** How much sound before speech is kept beyond the padding: the frames in which speech was recognised. */
const recognitionMs = 200;
/** The most utterances transcribed at the same time; while there are more, the client waits. */
const pendingMax = 4;
/**
 * Audio is processed in pieces so short that none contains both the end of one utterance and the beginning of the next: each can be paid
 * for beforehand.
 */
const pieceMs = speechMsMin;
/** A second of audio, which takes some milliseconds: one event may bring half an hour. */
const piecesPerTurn = Math.round(1_000 / pieceMs);
const noBytes = Buffer.alloc(0);

type Spoken = {
  itemId: string;
  /** When it began, in milliseconds since the session's start. */
  startMs: number;
  /** Whether the client was told that speech had started. */
  isSpeech: boolean;
  item: MeteredItem;
  utterance: Utterance;
  samples: number;
  /** The size of the prompt that it is sent with. */
  promptBytes: number;
  /** What its sound holds of the room for it, in bytes. */
  heldBytes: number;
  /** Resolves when everything so far is delivered; the next delta waits for it. */
  delivered: Promise<void>;
  /** How many deltas wait for the journal, and how many characters they have. */
  waiting: number;
  waitingLength: number;
};

/** Answers a session itself: cuts speech into utterances, and has each transcribed. */
export class UtteranceBackend implements Backend {
  readonly #context: BackendContext;
  readonly #transcriber: Transcriber;
  readonly #pending = new Set<Promise<void>>();
  #config: SessionConfig;
  #activity: VoiceActivity | null = null;
  #current: Spoken | null = null;
  #previousItemId: string | null = null;
  /** How much of the session was over when audio first came in its present format, in milliseconds. */
  #formatStartMs = 0;
  /** The samples in that format so far, and the last of those that belong to no utterance. */
  #heardSamples = 0;
  #tail: Int16Array = new Int16Array(0);
  /** The first part of a sample that the next append completes. */
  #partial = noBytes;
  /** The sample at which voice detection started. */
  #activityStart = 0;

  constructor(context: BackendContext, transcriber: Transcriber, config: SessionConfig) {
    this.#context = context;
    this.#transcriber = transcriber;
    this.#config = config;
    this.#listen();
  }

  configure(config: SessionConfig): boolean {
    const { format, turnDetection: before } = this.#config;
    const { turnDetection } = config;
    const isOtherFormat = JSON.stringify(format) !== JSON.stringify(config.format);
    if (isOtherFormat) {
      this.#formatStartMs = this.#msAt(this.#heardSamples);
      this.#heardSamples = 0;
      this.#partial = noBytes;
    }
    this.#config = config;
    this.#context.setPrompt(promptBytesOf(config));
    if (isOtherFormat || before === null || turnDetection === null) this.#listen();
    else this.#activity!.configure(turnDetection);
    this.#context.sayUpdated();
    return true;
  }

  async append(audio: Buffer, causeId: string | null): Promise<void> {
    const { format } = this.#config;
    const bytes = this.#partial.length === 0 ? audio : Buffer.concat([this.#partial, audio]);
    const sampleBytes = sampleBytesOf(format);
    const samples = Math.floor(bytes.length / sampleBytes);
    if (this.#activity === null && (this.#current?.samples ?? 0) + samples > this.#samplesIn(utteranceMsMax)) {
      const text = `The audio buffer is full: commit at least every ${utteranceMsMax / 1000} s.`;
      this.#refuse(invalidRequest('audio', text, 'input_audio_buffer_full'), causeId);
      return;
    }
    const end = samples * sampleBytes;
    this.#partial = Buffer.from(bytes.subarray(end));
    const pieceBytes = this.#samplesIn(pieceMs) * sampleBytes;
    const starts = Array.from({ length: Math.ceil(end / pieceBytes) }, (_, index) => index * pieceBytes);
    for await (const some of inTurns(starts, piecesPerTurn)) {
      for (const at of some) {
        if (this.#context.signal.aborted) return;
        const piece = decodeSamples(format, bytes.subarray(at, Math.min(at + pieceBytes, end)));
        await this.#prepare();
        if (this.#activity === null) this.#hearBuffer(piece);
        else this.#hearSpeech(this.#activity, piece);
        await this.#room();
      }
    }
  }

  commit(causeId: string | null): void {
    const spoken = this.#current;
    if (spoken === null || spoken.samples < this.#samplesIn(utteranceMsMin)) {
      const text =
        spoken === null && this.#activity !== null
          ? 'There is no uncommitted speech. To commit audio without speech, set `turn_detection` to null.'
          : `The audio buffer is too short: commit at least ${utteranceMsMin} ms of audio.`;
      const error = invalidRequest(undefined, text, 'input_audio_buffer_commit_empty');
      this.#refuse(error, causeId);
      return;
    }
    this.#startAfresh();
    this.#commit(spoken);
  }

  clear(): void {
    this.#drop();
    this.#startAfresh();
    this.#context.events.emit({ type: 'input_audio_buffer.cleared' });
  }

  get hasUncommitted(): boolean {
    return this.#current !== null;
  }

  async finish(): Promise<void> {
    await Promise.all(this.#pending);
  }

  /** What is still being transcribed was ended with the session's signal, or waited for before a change of the model. */
  async close(): Promise<void> {
    this.#drop();
    await Promise.all(this.#pending);
  }

  /**
   * Makes sure that an utterance beginning now can be paid for. One that is being spoken is heard to its end, and those being transcribed
   * are waited for: near its limit a budget holds all its room for them, and has most of it again when they are done.
   */
  async #prepare(): Promise<void> {
    while (this.#current === null || !this.#context.isRefused) {
      try {
        await this.#context.prepare();
        return;
      } catch (refusal) {
        if (this.#current !== null) return;
        if (this.#pending.size === 0 || this.#context.signal.aborted) throw refusal;
        await Promise.race(this.#pending);
      }
    }
  }

  #listen(): void {
    const { turnDetection, format } = this.#config;
    this.#activity =
      turnDetection === null
        ? null
        : new VoiceActivity(turnDetection, sampleRateOf(format), this.#current?.isSpeech === true);
    this.#activityStart = this.#heardSamples;
    this.#tail = new Int16Array(0);
  }

  /** Without turn detection everything that comes is one utterance, until the client commits it. */
  #hearBuffer(samples: Int16Array): void {
    this.#current ??= this.#begin(this.#heardSamples);
    this.#heardSamples += samples.length;
    this.#feed(this.#current, samples);
  }

  #hearSpeech(activity: VoiceActivity, samples: Int16Array): void {
    const all = this.#tail.length === 0 ? samples : joinSamples([this.#tail, samples]);
    const allStart = this.#heardSamples - this.#tail.length;
    this.#heardSamples += samples.length;
    let cursor = this.#current === null ? allStart : this.#heardSamples - samples.length;
    const between = (from: number, to: number): Int16Array => all.subarray(from - allStart, to - allStart);
    for (const change of activity.take(samples)) {
      const sample = this.#activityStart + change.sample;
      if (change.kind === 'started') {
        // What was appended before voice detection started is heard with it.
        if (this.#current === null) {
          cursor = Math.max(cursor, sample - this.#samplesIn(this.#config.turnDetection!.prefixPaddingMs));
          this.#current = this.#begin(cursor);
        }
        this.#startSpeech(this.#current);
      } else if (this.#current !== null) {
        this.#feed(this.#current, between(cursor, sample));
        this.#stopSpeech(this.#current, sample);
        cursor = sample;
      }
    }
    if (this.#current !== null) {
      this.#feed(this.#current, between(cursor, this.#heardSamples));
      this.#tail = new Int16Array(0);
      if (this.#current.samples >= this.#samplesIn(utteranceMsMax)) {
        activity.reset();
        if (this.#current.isSpeech) this.#stopSpeech(this.#current, this.#heardSamples);
        else this.#commit(this.#current);
      }
      return;
    }
    const keepMs = this.#config.turnDetection!.prefixPaddingMs + recognitionMs;
    const keepFrom = Math.max(cursor, this.#heardSamples - this.#samplesIn(keepMs));
    this.#tail = between(keepFrom, this.#heardSamples).slice();
  }

  /** The client has ended its utterance: neither speech nor half a sample continues beyond this. */
  #startAfresh(): void {
    this.#activity?.reset();
    this.#partial = noBytes;
  }

  #startSpeech(spoken: Spoken): void {
    spoken.isSpeech = true;
    this.#context.events.emit({
      type: 'input_audio_buffer.speech_started',
      audio_start_ms: Math.round(spoken.startMs),
      item_id: spoken.itemId,
    });
  }

  #stopSpeech(spoken: Spoken, sample: number): void {
    this.#context.events.emit({
      type: 'input_audio_buffer.speech_stopped',
      audio_end_ms: Math.round(this.#msAt(sample)),
      item_id: spoken.itemId,
    });
    this.#commit(spoken);
  }

  /** An utterance begins at a sample of the present format. */
  #begin(sample: number): Spoken {
    const { events } = this.#context;
    const itemId = newItemId();
    const item = this.#context.newItem();
    const spoken: Spoken = {
      itemId,
      startMs: this.#msAt(sample),
      isSpeech: false,
      item,
      samples: 0,
      promptBytes: promptBytesOf(this.#config),
      heldBytes: 0,
      delivered: Promise.resolve(),
      waiting: 0,
      waitingLength: 0,
      utterance: this.#transcriber.begin({
        config: this.#config,
        item,
        onDelta: (text) => {
          if (spoken.waiting >= waitingMax || spoken.waitingLength + text.length > waitingLengthMax) return false;
          spoken.waiting += 1;
          spoken.waitingLength += text.length;
          spoken.delivered = spoken.delivered.then(async () => {
            await item.delta(text);
            spoken.waiting -= 1;
            spoken.waitingLength -= text.length;
            events.emit(deltaEvent(itemId, text));
          });
          return true;
        },
      }),
    };
    return spoken;
  }

  #feed(spoken: Spoken, samples: Int16Array): void {
    if (samples.length === 0) return;
    spoken.samples += samples.length;
    // Copied, since it may be a small part of a longer buffer.
    spoken.utterance.hear(samples.slice());
    this.#hold(spoken, spoken.utterance.heldBytes);
  }

  #commit(spoken: Spoken): void {
    this.#current = null;
    for (const event of itemEvents(spoken.itemId, this.#previousItemId)) this.#context.events.emit(event);
    this.#previousItemId = spoken.itemId;
    const pending = this.#transcribe(spoken).finally(() => {
      this.#pending.delete(pending);
    });
    this.#pending.add(pending);
  }

  async #transcribe(spoken: Spoken): Promise<void> {
    const { itemId, item, utterance } = spoken;
    const audioMs = samplesMs(this.#config.format, spoken.samples);
    try {
      const { text, usage, reported } = await utterance.finish();
      await spoken.delivered;
      const isBelieved = await item.complete({ text, reported, audioMs, promptBytes: spoken.promptBytes });
      this.#context.events.emit(completedEvent(itemId, text, isBelieved ? usage : durationUsage(audioMs)));
    } catch (thrown) {
      const error = thrown instanceof GatewayError ? thrown : internalError(thrown);
      if (!this.#context.signal.aborted) await spoken.delivered;
      await item.fail(error, audioMs);
      if (error.reason !== ErrorReason.CANCELLED) this.#context.events.emit(failedEvent(itemId, error));
    } finally {
      this.#hold(spoken, 0);
    }
  }

  /** Its sound takes this many bytes of memory from now on. */
  #hold(spoken: Spoken, bytes: number): void {
    const { deps, caller } = this.#context;
    deps.heardRoom.hold(caller.userId, spoken.heldBytes, bytes);
    spoken.heldBytes = bytes;
  }

  /** Forgets what was heard but not committed. */
  #drop(): void {
    const spoken = this.#current;
    this.#current = null;
    this.#tail = new Int16Array(0);
    if (spoken === null) return;
    spoken.utterance.abort();
    this.#hold(spoken, 0);
    const ending = spoken.item
      .fail(cancelled(), samplesMs(this.#config.format, spoken.samples))
      .finally(() => this.#pending.delete(ending));
    this.#pending.add(ending);
  }

  /** Resolves when there is room for another utterance. */
  async #room(): Promise<void> {
    while (this.#pending.size >= pendingMax && !this.#context.signal.aborted) await Promise.race(this.#pending);
  }

  #refuse(error: GatewayError, causeId: string | null): void {
    this.#context.events.emit(errorEvent(error, causeId));
  }

  /** When a sample of the present format was heard, in milliseconds of the session. */
  #msAt(sample: number): number {
    return this.#formatStartMs + (sample * 1000) / sampleRateOf(this.#config.format);
  }

  #samplesIn(ms: number): number {
    return Math.round((sampleRateOf(this.#config.format) * ms) / 1000);
  }
}
