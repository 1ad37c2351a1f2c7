import { wavHeader } from '../audio/wav-header.ts';
import type { AudioFormat } from './session-config.ts';

/** Samples in a second of a format. */
export const sampleRateOf = (format: AudioFormat): number => (format.type === 'audio/pcm' ? format.rate : 8_000);

/** How long so many samples of a format sound, in whole milliseconds. */
export const samplesMs = (format: AudioFormat, samples: number): number =>
  Math.round((samples * 1000) / sampleRateOf(format));

/** Bytes of a sample of a format. */
export const sampleBytesOf = (format: AudioFormat): number => (format.type === 'audio/pcm' ? 2 : 1);

/** The samples of audio in any of the formats, as 16-bit integers. An odd last byte is dropped. */
export function decodeSamples(format: AudioFormat, bytes: Buffer): Int16Array {
  if (format.type === 'audio/pcm') {
    const samples = new Int16Array(bytes.length >> 1);
    for (let index = 0; index < samples.length; index++) samples[index] = bytes.readInt16LE(index * 2);
    return samples;
  }
  const decode = format.type === 'audio/pcmu' ? muLawSample : aLawSample;
  return Int16Array.from(bytes, decode);
}

/** ITU-T G.711, mu-law: sign, three bits of exponent, four of mantissa, all inverted. */
function muLawSample(byte: number): number {
  const code = ~byte & 0xff;
  const magnitude = (((code & 0x0f) << 3) + 0x84) << ((code & 0x70) >> 4);
  return code & 0x80 ? 0x84 - magnitude : magnitude - 0x84;
}

/** ITU-T G.711, A-law: every other bit is inverted. */
function aLawSample(byte: number): number {
  const code = byte ^ 0x55;
  const exponent = (code & 0x70) >> 4;
  const mantissa = (code & 0x0f) << 4;
  const magnitude = exponent === 0 ? mantissa + 8 : (mantissa + 0x108) << (exponent - 1);
  return code & 0x80 ? magnitude : -magnitude;
}

/** Samples as little-endian bytes. */
export function samplesToBytes(samples: Int16Array): Buffer {
  const bytes = Buffer.allocUnsafe(samples.length * 2);
  for (let index = 0; index < samples.length; index++) bytes.writeInt16LE(samples[index]!, index * 2);
  return bytes;
}

/** Samples of several pieces in one. */
export function joinSamples(pieces: readonly Int16Array[]): Int16Array {
  const joined = new Int16Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let offset = 0;
  for (const piece of pieces) {
    joined.set(piece, offset);
    offset += piece.length;
  }
  return joined;
}

/** Changes the sample rate of a stream by linear interpolation, also across the borders of its pieces. */
export class Resampler {
  readonly #step: number;
  /** The position of the next sample, in samples of the input, counted from the last one of the previous piece. */
  #position = 1;
  #last = 0;

  constructor(fromRate: number, toRate: number) {
    this.#step = fromRate / toRate;
  }

  take(samples: Int16Array): Int16Array {
    if (samples.length === 0) return samples;
    if (this.#step === 1) return samples;
    const out: number[] = [];
    // Index 0 is the last sample before, index n the n-th of this piece.
    const at = (index: number): number => (index === 0 ? this.#last : samples[index - 1]!);
    while (this.#position <= samples.length) {
      const before = Math.floor(this.#position);
      const share = this.#position - before;
      const low = at(before);
      const high = before < samples.length ? at(before + 1) : low;
      if (share > 0 && before === samples.length) break;
      out.push(Math.round(low + (high - low) * share));
      this.#position += this.#step;
    }
    this.#position -= samples.length;
    this.#last = samples.at(-1)!;
    return Int16Array.from(out);
  }
}

/** A WAV file of one channel and 16 bits. */
export function wavFile(samples: Int16Array, sampleRate: number): Buffer {
  const bytes = samplesToBytes(samples);
  return Buffer.concat([wavHeader(bytes.length, sampleRate), bytes]);
}
