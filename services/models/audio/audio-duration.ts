/** The bit rate assumed for compressed speech of unknown length, 64 kbit/s. */
const bytesPerSecondGuess = 8_000;
/** The lowest bit rate of any speech codec, 4 kbit/s. */
const bytesPerSecondMin = 500;
/** 192 kHz in stereo with 32 bits: no speech takes more, whatever the file's header says. */
const bytesPerSecondMax = 192_000 * 2 * 4;

/**
 * The length of an audio file in milliseconds, if its first bytes and its size tell it, as for WAV and FLAC; null for other formats, which
 * must be read whole.
 */
export function statedDurationMs(head: Buffer, totalBytes: number): number | null {
  const durationMs = wavDurationMs(head, totalBytes) ?? flacDurationMs(head, totalBytes);
  return durationMs === null ? null : plausibleDurationMs(durationMs, totalBytes);
}

/**
 * An immediate answer for any file, in milliseconds: the stated length, or one computed from the bit rate of an MP3's first frame, or else
 * from a usual bit rate.
 */
export function estimatedDurationMs(head: Buffer, totalBytes: number): number {
  const durationMs = mp3DurationMs(head, totalBytes) ?? usualDurationMs(totalBytes);
  return statedDurationMs(head, totalBytes) ?? plausibleDurationMs(durationMs, totalBytes);
}

/** How long this many bytes of speech sound at a usual bit rate, in milliseconds. */
export const usualDurationMs = (totalBytes: number): number => (totalBytes / bytesPerSecondGuess) * 1000;

/** Models hear audio in windows of this length, however short the last one is. */
export const windowMs = 30_000;
const windowOutputTokens = 450;

/** Output tokens of a transcript at most. */
export const transcriptTokensMax = (audioMs: number): number => Math.ceil(audioMs / windowMs) * windowOutputTokens;

/** The longest that speech of this many bytes can be, in milliseconds. */
export const longestDurationMs = (totalBytes: number): number => (totalBytes / bytesPerSecondMin) * 1000;

/**
 * The length to charge: what a file states is the client's word, so it counts as no shorter than the file's size allows, nor longer than a
 * day.
 */
export function plausibleDurationMs(durationMs: number, totalBytes: number): number {
  const durationMsMin = Math.ceil((totalBytes / bytesPerSecondMax) * 1000);
  return Math.min(Math.max(Math.round(durationMs), durationMsMin), 24 * 3_600_000);
}

const tag = (bytes: Buffer, at: number): string => bytes.toString('latin1', at, at + 4);

/**
 * RIFF WAVE: everything after the head of the data chunk, by the format. The chunk's own length is not used: streams claim more than there
 * is, and a liar less. A short list of tags at the end is counted too.
 */
function wavDurationMs(head: Buffer, totalBytes: number): number | null {
  if (head.length < 44 || tag(head, 0) !== 'RIFF' || tag(head, 8) !== 'WAVE') return null;
  let bytesPerSecond = Number.POSITIVE_INFINITY;
  for (let at = 12; at + 8 <= head.length; ) {
    const size = head.readUInt32LE(at + 4);
    if (tag(head, at) === 'fmt ' && at + 24 <= head.length) {
      const rate = wavBytesPerSecond(head.subarray(at + 8));
      // Of several that can be read some decoders use the first, others the last: the one with the longest sound counts.
      if (rate >= 100) bytesPerSecond = Math.min(bytesPerSecond, rate);
    }
    if (tag(head, at) === 'data') {
      return Number.isFinite(bytesPerSecond) ? (Math.max(0, totalBytes - at - 8) / bytesPerSecond) * 1000 : null;
    }
    // Chunks are padded to an even length.
    at += 8 + size + (size & 1);
  }
  return null;
}

const pcm = 1;
const ieeeFloat = 3;
const extensible = 0xfffe;

/** Computed from what decoders use. No decoder reads the byte rate in the header, but for compressed sound there is nothing else. */
function wavBytesPerSecond(format: Buffer): number {
  let kind = format.readUInt16LE(0);
  // The actual format is at the beginning of the format's GUID.
  if (kind === extensible && format.length >= 26) kind = format.readUInt16LE(24);
  if (kind !== pcm && kind !== ieeeFloat) return Math.min(format.readUInt32LE(8), bytesPerSecondGuess);
  return (format.readUInt32LE(4) * format.readUInt16LE(2) * format.readUInt16LE(14)) / 8;
}

/**
 * FLAC: STREAMINFO, which comes first (RFC 9639 section 8.2), has the sample rate in 20 bits, the channels in 3, the bits per sample in 5
 * and the number of samples in 36. Lossless coding never takes more bytes than the samples themselves.
 */
function flacDurationMs(head: Buffer, totalBytes: number): number | null {
  if (head.length < 26 || tag(head, 0) !== 'fLaC') return null;
  const sampleRate = head.readUIntBE(18, 3) >> 4;
  const channels = ((head[20]! >> 1) & 0b111) + 1;
  const sampleBits = (((head[20]! & 1) << 4) | (head[21]! >> 4)) + 1;
  const samples = (head[21]! & 0x0f) * 2 ** 32 + head.readUInt32BE(22);
  if (sampleRate === 0 || samples === 0) return null;
  return (Math.max(samples, (totalBytes * 8) / (channels * sampleBits)) / sampleRate) * 1000;
}

const mpeg1Layer3Kbits = [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];
const mpeg2Layer3Kbits = [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160];

/** MP3: assumes that the bit rate of the first frame holds throughout. */
function mp3DurationMs(head: Buffer, totalBytes: number): number | null {
  let at = 0;
  if (head.length > 10 && head.toString('latin1', 0, 3) === 'ID3') {
    // The tag's length is in four bytes of seven bits each.
    at = 10 + (head[6]! << 21) + (head[7]! << 14) + (head[8]! << 7) + head[9]!;
  }
  if (at + 4 > head.length || head[at] !== 0xff || (head[at + 1]! & 0xe6) !== 0xe2) return null;
  const isMpeg1 = (head[at + 1]! & 0x18) === 0x18;
  const kbits = (isMpeg1 ? mpeg1Layer3Kbits : mpeg2Layer3Kbits)[head[at + 2]! >> 4] ?? 0;
  return kbits === 0 ? null : ((totalBytes - at) * 8) / kbits;
}
