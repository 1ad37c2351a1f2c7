import { AudioLength } from '../../audio/audio-length.ts';
import type { AudioLengthReader } from '../../audio/audio-length-reader.ts';
import { hashText } from './hash.ts';
import { readWav, type WavSound } from './wav.ts';

/** A stretch of a transcript. Times are in seconds. */
export type Segment = { start: number; end: number; text: string };

/** What the sandbox hears. */
export type Heard = { seconds: number; segments: Segment[]; text: string };

const segmentSeconds = 5;
/** Samples looked at in one segment; enough for its energy, and independent of the sample rate. */
const samplesMax = 2_000;

/** Describes audio: its duration, and how loud each five seconds of it are where that can be read without a codec (WAV). */
export async function listen(bytes: Buffer, lengths: AudioLengthReader): Promise<Heard> {
  const sound = readWav(bytes);
  const file = { head: bytes, bytes: bytes.length, content: bytes };
  const seconds = (sound?.durationMs ?? (await new AudioLength(file, lengths).measuredMs())) / 1000;
  const segments: Segment[] = [];
  for (let start = 0; start < seconds || segments.length === 0; start += segmentSeconds) {
    const end = Math.min(start + segmentSeconds, seconds);
    const intro = start === 0 ? `Sandbox transcript of ${shown(seconds)} seconds of audio. ` : '';
    const what =
      sound === null
        ? `hold ${wordFor(bytes, start / seconds)} words`
        : loudness(sound, start / seconds, end / seconds);
    segments.push({
      start: round(start),
      end: round(end),
      text: `${intro}Seconds ${shown(start)} to ${shown(end)} ${what}.`,
    });
  }
  return { seconds: round(seconds), segments, text: segments.map((segment) => segment.text).join(' ') };
}

/** The words of a segment, spread evenly over its time. */
export function wordsOf({ start, end, text }: Segment): { word: string; start: number; end: number }[] {
  const words = text.split(' ');
  const step = (end - start) / words.length;
  return words.map((word, i) => ({ word, start: round(start + i * step), end: round(start + (i + 1) * step) }));
}

const round = (seconds: number): number => Math.round(seconds * 1000) / 1000;
const shown = (seconds: number): string => String(Math.round(seconds * 10) / 10);

function loudness(sound: WavSound, from: number, to: number): string {
  const first = Math.floor(from * sound.frames);
  const last = Math.floor(to * sound.frames);
  const step = Math.max(1, Math.floor((last - first) / samplesMax));
  let sum = 0;
  let count = 0;
  for (let frame = first; frame < last; frame += step) {
    sum += sound.sampleAt(frame) ** 2;
    count++;
  }
  const level = 10 * Math.log10(sum / Math.max(count, 1) + 1e-10);
  if (level < -60) return 'are silent';
  if (level < -35) return 'sound quiet';
  return level < -15 ? 'sound clear' : 'sound loud';
}

/** Something that depends on the content, for formats which cannot be decoded here. */
function wordFor(bytes: Buffer, from: number): string {
  const at = Math.floor(from * bytes.length);
  const moods = ['unheard', 'encoded', 'compressed', 'packed'];
  return moods[hashText(bytes.toString('latin1', at, at + 256)) % moods.length]!;
}
