import { joinSamples } from './pcm.ts';
import type { TurnDetection } from './session-config.ts';

/** What was detected: speech began or ended, at a sample counted from the first one processed. */
type VoiceChange = { kind: 'started' | 'stopped'; sample: number };

const frameMs = 20;
/** How many voiced frames in a row make speech; a click is shorter. */
const framesToStart = 3;
/** No speech begins sooner than this after the end of the last, in milliseconds. */
export const speechMsMin = framesToStart * frameMs;
/** Nothing quieter than this is speech, in decibels of full scale. */
const floorDb = -55;
/** The background level is that of the quietest frame of the last three seconds, kept as the quietest of each fifth of a second. */
const windowFrames = 10;
const windows = 15;

/**
 * Tells speech from background by energy: frames louder than the background by some decibels, which `threshold` chooses. It cannot compete
 * with a model, but needs none, and cuts utterances for upstreams that only transcribe files.
 */
export class VoiceActivity {
  readonly #frameSamples: number;
  #marginDb!: number;
  #framesToStop!: number;
  /** The quietest frame of each of the last windows, the current one last. */
  readonly #quietest: number[] = Array.from({ length: windows }, () => floorDb - 5);
  #frames = 0;
  #voiced = 0;
  #silent = 0;
  #speaking: boolean;
  /** The number of the sample after the last whole frame. */
  #sample = 0;
  #partial: Int16Array = new Int16Array(0);

  /** `isSpeaking`: whether it starts in the middle of speech. */
  constructor(detection: TurnDetection, sampleRate: number, isSpeaking = false) {
    this.#frameSamples = Math.round((sampleRate * frameMs) / 1000);
    this.#speaking = isSpeaking;
    this.configure(detection);
  }

  /** Goes on by other limits. */
  configure({ threshold, silenceDurationMs }: TurnDetection): void {
    this.#marginDb = 6 + 12 * threshold;
    this.#framesToStop = Math.max(1, Math.ceil(silenceDurationMs / frameMs));
  }

  /** Processes further samples; returns what changed, in order. */
  take(samples: Int16Array): VoiceChange[] {
    const changes: VoiceChange[] = [];
    let position = 0;
    while (position < samples.length) {
      const wanted = this.#frameSamples - this.#partial.length;
      const piece = samples.subarray(position, position + wanted);
      position += piece.length;
      const frame = this.#partial.length === 0 ? piece : joinSamples([this.#partial, piece]);
      if (frame.length < this.#frameSamples) {
        this.#partial = frame.slice();
        break;
      }
      this.#partial = emptyFrame;
      this.#sample += frame.length;
      const change = this.#hear(levelDb(frame));
      if (change !== null) changes.push(change);
    }
    return changes;
  }

  /** The client ended the utterance itself. */
  reset(): void {
    this.#speaking = false;
    this.#voiced = 0;
    this.#silent = 0;
  }

  #hear(db: number): VoiceChange | null {
    const isVoice = db > Math.max(floorDb, Math.min(...this.#quietest) + this.#marginDb);
    this.#learn(db);
    this.#voiced = isVoice ? this.#voiced + 1 : 0;
    this.#silent = isVoice ? 0 : this.#silent + 1;
    if (!this.#speaking && this.#voiced >= framesToStart) {
      this.#speaking = true;
      return { kind: 'started', sample: this.#sample - this.#voiced * this.#frameSamples };
    }
    if (this.#speaking && this.#silent >= this.#framesToStop) {
      this.#speaking = false;
      return { kind: 'stopped', sample: this.#sample };
    }
    return null;
  }

  /** Speech has pauses, even within words; sound without pauses is background. */
  #learn(db: number): void {
    const quietest = this.#quietest;
    if (this.#frames++ % windowFrames === 0) {
      quietest.shift();
      quietest.push(db);
    } else if (db < quietest.at(-1)!) {
      quietest[windows - 1] = db;
    }
  }
}

const emptyFrame = new Int16Array(0);

/** The level of a frame in decibels of full scale, without its constant part. */
function levelDb(frame: Int16Array): number {
  let sum = 0;
  let squares = 0;
  for (let index = 0; index < frame.length; index++) {
    const sample = frame[index]! / 32_768;
    sum += sample;
    squares += sample * sample;
  }
  const mean = sum / frame.length;
  return 10 * Math.log10(Math.max(squares / frame.length - mean * mean, 1e-10));
}
