import type { BodyPiece } from '../upstream/upstream.ts';
import { estimatedDurationMs, longestDurationMs, plausibleDurationMs, statedDurationMs } from './audio-duration.ts';
import type { AudioLengthReader } from './audio-length-reader.ts';

/** The audio file of an upload. */
export type AudioFile = {
  /** Its first bytes. */
  head: Buffer;
  bytes: number;
  /** All of it. */
  content: BodyPiece;
};

/** How long the audio of an upload is, for upstreams that do not say how much they heard. */
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

  /** The file's length in milliseconds; for a file that cannot be read, the estimate, or `heardMs` if more was heard. */
  async measuredMs(heardMs = 0): Promise<number> {
    const readMs = await this.#read();
    const { bytes } = this.#file;
    const heardMsMax = Math.min(heardMs, longestDurationMs(bytes));
    return plausibleDurationMs(readMs ?? Math.max(this.estimateMs, heardMsMax), bytes);
  }

  /** The longest that the file can be, in milliseconds: its length, or what its size allows if it cannot be read. */
  async longestMs(): Promise<number> {
    const { bytes } = this.#file;
    return plausibleDurationMs((await this.#read()) ?? longestDurationMs(bytes), bytes);
  }

  #read(): Promise<number | null> {
    const { head, bytes, content } = this.#file;
    this.#reading ??=
      statedDurationMs(head, bytes) === null ? this.#reader.read(content) : Promise.resolve(this.estimateMs);
    return this.#reading;
  }
}
