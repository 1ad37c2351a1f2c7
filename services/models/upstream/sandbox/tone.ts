/** Samples per second of what the sandbox speaks, one channel, 16 bits, as OpenAI's `pcm`. */
export const sampleRate = 24_000;
export const bytesPerSample = 2;
/** How long one character sounds at speed 1: about the pace of a speaker. */
const characterMs = 60;
const amplitude = 8_000;

/** The duration of a spoken text in samples. A text always has some. */
export const samplesOf = (text: string, speed: number): number => text.length * samplesPerCharacter(speed);

export const durationMsOf = (text: string, speed: number): number => (samplesOf(text, speed) / sampleRate) * 1000;

const samplesPerCharacter = (speed: number): number => Math.round((characterMs / 1000 / speed) * sampleRate);

/**
 * Speaks a text as tones: each letter and digit has a pitch of its own, everything else is silence. Little-endian 16-bit
 * samples in pieces of four characters, about a quarter of a second each at speed 1.
 */
export function* toneSamples(text: string, speed: number): Generator<Uint8Array> {
  const perCharacter = samplesPerCharacter(speed);
  const silence = Buffer.alloc(perCharacter * bytesPerSample);
  const tones = new Map<number, Buffer>();
  const toneOf = (code: number): Buffer => {
    const known = tones.get(code);
    if (known !== undefined) return known;
    const tone = makeTone(code, perCharacter);
    // A text of many scripts could otherwise fill the memory with tones.
    if (tones.size < 256) tones.set(code, tone);
    return tone;
  };
  for (let at = 0; at < text.length; at += 4) {
    const part = text.slice(at, at + 4).split('');
    yield Buffer.concat(part.map((unit) => (/[\p{L}\p{N}]/u.test(unit) ? toneOf(unit.charCodeAt(0)) : silence)));
  }
}

/** One tone with soft ends, so that it does not click. Pitches span two octaves above 220 Hz. */
function makeTone(code: number, samples: number): Buffer {
  const frequency = 220 * 2 ** ((code % 24) / 12);
  const bytes = Buffer.allocUnsafe(samples * bytesPerSample);
  for (let i = 0; i < samples; i++) {
    const envelope = Math.sin((Math.PI * i) / samples);
    const value = Math.sin((2 * Math.PI * frequency * i) / sampleRate);
    bytes.writeInt16LE(Math.round(amplitude * envelope * value), i * bytesPerSample);
  }
  return bytes;
}
