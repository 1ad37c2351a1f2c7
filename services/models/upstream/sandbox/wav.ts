const pcmFormat = 1;
const floatFormat = 3;
/** The format is in the extension; its first two bytes are one of the two above. */
const extensibleFormat = 0xfffe;

/** The sound in a WAV file. */
export type WavSound = {
  durationMs: number;
  frames: number;
  /** The first channel of one frame, from -1 to 1. */
  sampleAt(frame: number): number;
};

/** Reads a WAV file of integers or floats; null when it is none. A data chunk that claims too much (streams do) ends with the file. */
export function readWav(bytes: Buffer): WavSound | null {
  if (bytes.length < 44 || tag(bytes, 0) !== 'RIFF' || tag(bytes, 8) !== 'WAVE') return null;
  let format: Buffer | undefined;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = bytes.readUInt32LE(at + 4);
    const content = bytes.subarray(at + 8, at + 8 + size);
    if (tag(bytes, at) === 'fmt ' && content.length >= 16) format = content;
    if (tag(bytes, at) === 'data') return format === undefined ? null : soundOf(format, content);
    // Chunks are padded to an even length.
    at += 8 + size + (size & 1);
  }
  return null;
}

const tag = (bytes: Buffer, at: number): string => bytes.toString('latin1', at, at + 4);

function soundOf(format: Buffer, data: Buffer): WavSound | null {
  const declared = format.readUInt16LE(0);
  const kind = declared === extensibleFormat && format.length >= 26 ? format.readUInt16LE(24) : declared;
  const sampleRate = format.readUInt32LE(4);
  const frameBytes = format.readUInt16LE(12);
  const sampleBytes = format.readUInt16LE(14) / 8;
  const read = sampleReader(kind, sampleBytes, data);
  if (read === null || frameBytes < sampleBytes || sampleRate < 1_000 || sampleRate > 768_000) return null;
  const frames = Math.floor(data.length / frameBytes);
  return {
    durationMs: (frames / sampleRate) * 1000,
    frames,
    sampleAt: (frame) => read(frame * frameBytes),
  };
}

function sampleReader(kind: number, sampleBytes: number, data: Buffer): ((at: number) => number) | null {
  if (kind === floatFormat) {
    if (sampleBytes === 4) return (at) => finite(data.readFloatLE(at));
    return sampleBytes === 8 ? (at) => finite(data.readDoubleLE(at)) : null;
  }
  if (kind !== pcmFormat) return null;
  // Eight bits are unsigned, all other widths are signed.
  if (sampleBytes === 1) return (at) => (data[at]! - 128) / 128;
  if (sampleBytes !== 2 && sampleBytes !== 3 && sampleBytes !== 4) return null;
  const scale = 2 ** (8 * sampleBytes - 1);
  return (at) => data.readIntLE(at, sampleBytes) / scale;
}

const finite = (value: number): number => (Number.isFinite(value) ? Math.max(-1, Math.min(1, value)) : 0);
