import type { BodyPiece } from '../upstream/upstream.ts';
import {
  estimatedDurationMs,
  longestDurationMs,
  plausibleDurationMs,
  statedDurationMs,
  transcriptTokensMax,
} from './audio-duration.ts';
import type { AudioLengthReader } from './audio-length-reader.ts';

/** The audio file of an upload. */
export type AudioFile = {
  /** Its first bytes. */
  head: Buffer;
  bytes: number;
  /** All of it. */
  content: BodyPiece;
};

/**
 * How long the audio of an upload is, for upstreams that do not say how much they heard. What a file states is its sender's word: two files
 * in a row, or times that are all zero, state less than decoders hear. So it is no longer taken for true once `writtenTokens`, the tokens
 * of the transcript, are more than such audio can have.
 */
export class AudioLength {
  /** An estimate for what must be known before the call, in milliseconds. */
  readonly estimateMs: number;
  readonly #file: AudioFile;
  readonly #reader: Pick<AudioLengthReader, 'read'>;
  #reading: Promise<number | null> | undefined;

  constructor(file: AudioFile, reader: Pick<AudioLengthReader, 'read'>) {
    this.estimateMs = estimatedDurationMs(file.head, file.bytes);
    this.#file = file;
    this.#reader = reader;
  }

  /** Starts reading the file unless its head tells the length: the upload may be gone once the client is. */
  begin(): void {
    this.#read();
  }

  /**
   * The file's length in milliseconds; for a file that cannot be read or is not believed, the estimate, or `heardMs` if more was heard.
   */
  async measuredMs({ heardMs = 0, writtenTokens = 0 } = {}): Promise<number> {
    const readMs = await this.#believed(writtenTokens);
    const { bytes } = this.#file;
    const heardMsMax = Math.min(heardMs, longestDurationMs(bytes));
    return plausibleDurationMs(readMs ?? Math.max(this.estimateMs, heardMsMax), bytes);
  }

  /** The longest that the file can be, in milliseconds: its length, or what its size allows if it cannot be read or is not believed. */
  async longestMs(writtenTokens = 0): Promise<number> {
    const { bytes } = this.#file;
    return plausibleDurationMs((await this.#believed(writtenTokens)) ?? longestDurationMs(bytes), bytes);
  }

  async #believed(writtenTokens: number): Promise<number | null> {
    const readMs = await this.#read();
    return readMs === null || writtenTokens > transcriptTokensMax(readMs) ? null : readMs;
  }

  #read(): Promise<number | null> {
    const { head, bytes, content } = this.#file;
    this.#reading ??=
      statedDurationMs(head, bytes) === null ? this.#reader.read(content) : Promise.resolve(this.estimateMs);
    return this.#reading;
  }
}
