import type { AudioLength } from '../audio/audio-length.ts';
import { framePrefix, frameSuffix } from '../bytes/chunk-shape.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { type ReportedUsage, readUsage } from '../bytes/reported-usage.ts';
import { spliceMembers } from '../bytes/splice.ts';
import { toOneLine } from '../bytes/sse.ts';
import { isError } from '../bytes/stream-error.ts';
import type { Measures } from '../domain/price.ts';
import type { CallTools } from './call-tools.ts';
import { canTranscriptUse, measuresOf, type UsageBound } from './usage-bound.ts';
import type { WholeAnswer } from './whole-answer-reader.ts';

/** What is known about the audio of a call; the upstream's report is checked against it. */
export type Heard = {
  length: Pick<AudioLength, 'estimateMs' | 'measuredMs' | 'longestMs'>;
  /** Bytes that were sent beside the audio. */
  besideBytes: number;
  bound: UsageBound;
};

/**
 * The usage that an upstream reported; null if it reported none, or more than such short audio can have used. `writtenTokens` are those of
 * the transcript.
 */
export async function believedOfAudio(
  usage: ReportedUsage | Pick<Measures, 'audioMs'> | null,
  { length, besideBytes, bound }: Heard,
  writtenTokens: number,
): Promise<Partial<Measures> | null> {
  if (usage === null) return null;
  const used = 'totalTokens' in usage ? measuresOf(usage) : usage;
  // The file need not be read if even the estimate allows this use.
  if (canTranscriptUse(used, length.estimateMs, besideBytes)) return used;
  if (canTranscriptUse(used, await length.longestMs(writtenTokens), besideBytes)) return used;
  bound.disbelieve(used);
  return null;
}

/** Roughly how many tokens a transcript of this many characters has, to tell whether its audio can be that short; never for charges. */
export const roughTokens = (characters: number): number => Math.floor(characters / 4);

type TranscriptRules = {
  /** Whether the upstream answers in JSON. */
  isJson: boolean;
  /** Whether the client wants plain text. */
  isText: boolean;
  /** Whether the client gets the events of a stream. */
  asEvents: boolean;
  heard: Heard;
  tools: Pick<CallTools, 'tokenizer'>;
};

const fields = fieldSet('text', 'usage', 'duration', 'type', 'error', 'object');

/**
 * Reads a whole transcript. It is passed on byte for byte, unless the client wants only the text of a JSON answer, or events. The seconds
 * of audio are always measured: a model is priced by them or by tokens, and its price decides which counts. Null when it is no transcript.
 */
export function readTranscript(
  body: Buffer,
  { isJson, isText, asEvents, heard, tools }: TranscriptRules,
): WholeAnswer | null {
  const scan = new ObjectScan(fields);
  if (isJson && (scan.read(body) !== null || scan.kind('text') !== 'string')) return null;
  if (isJson && isError(scan)) return null;
  if (asEvents && scan.hasDuplicate) return null;
  const forward = asEvents ? eventsOf(scan) : isJson && isText ? [Buffer.from(scan.string('text')!)] : [body];
  const countTokens = async (text: string): Promise<Partial<Measures>> => ({
    outputTokens: await (await tools.tokenizer()).count(text),
  });
  // Subtitles and plain text carry no usage.
  if (!isJson) {
    const text = body.toString('utf8');
    const words = wordsIn(text);
    const counted = async () => ({
      ...(await countTokens(words)),
      audioMs: await heard.length.measuredMs({ heardMs: lastCueMs(text), writtenTokens: roughTokens(words.length) }),
    });
    return { forward, reported: null, counted };
  }

  const duration = scan.number('duration');
  const told = duration !== undefined && duration >= 0 ? { audioMs: Math.round(duration * 1000) } : null;
  const counted = async () => {
    const text = scan.string('text')!;
    const writtenTokens = roughTokens(text.length);
    const used = await believedOfAudio(readUsage(scan.json('usage')), heard, writtenTokens);
    const audioMs = used?.audioMs ?? (await believedOfAudio(told, heard, writtenTokens))?.audioMs;
    return {
      ...(used ?? (await countTokens(text))),
      audioMs: audioMs ?? (await heard.length.measuredMs({ writtenTokens })),
    };
  };
  return { forward, reported: null, counted };
}

/** A whole transcript as events: one with all of its text, and the last one with all of it. */
function eventsOf(transcript: ObjectScan<(typeof fields.names)[number]>): readonly Uint8Array[] {
  toOneLine(transcript.bytes);
  const delta = { type: 'transcript.text.delta', delta: transcript.string('text')! };
  const deltaFrame = delta.delta === '' ? '' : `data: ${JSON.stringify(delta)}\n\n`;
  const done = spliceMembers(transcript, [['type', '"transcript.text.done"']]);
  return [Buffer.from(deltaFrame), framePrefix, ...done, frameSuffix];
}

/** The lines of SRT and WebVTT that nobody said: the number of a cue, its times, and where it is shown. An arrow alone may be in a text. */
const cueHeads = /^(?:\d+\r?\n)?[\d:.,]+[ \t]*-->[ \t]*[\d:.,]+(?:[ \t]+\w+:\S+)*[ \t]*$/gm;

/** The words of a transcript in plain text, or of one in subtitles, as they would be in plain text. */
const wordsIn = (text: string): string =>
  text.search(cueHeads) === -1
    ? text
    : text
        .replace(/^WEBVTT.*/, '')
        .replace(cueHeads, '')
        .replace(/\s+/g, ' ')
        .trim();

const cueEnd = /-->[ \t]*(?:(\d+):)?(\d\d):(\d\d)[.,](\d{3})/g;

/** Where the last subtitle of SRT or WebVTT ends, in milliseconds; 0 without any. WebVTT omits hours when they are zero. */
function lastCueMs(text: string): number {
  let endMs = 0;
  for (const [, hours = '0', minutes, seconds, ms] of text.matchAll(cueEnd)) {
    endMs = Math.max(endMs, ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000 + Number(ms));
  }
  return endMs;
}
