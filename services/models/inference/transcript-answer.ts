import type { AudioLength } from '../audio/audio-length.ts';
import { framePrefix, frameSuffix } from '../bytes/chunk-shape.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { type ReportedUsage, readUsage } from '../bytes/reported-usage.ts';
import { spliceMembers } from '../bytes/splice.ts';
import { toOneLine } from '../bytes/sse.ts';
import { isError } from '../bytes/stream-error.ts';
import type { Measures } from '../domain/price.ts';
import type { CallTools } from './call-tools.ts';
import { canTranscriptUse, type UsageBound } from './usage-bound.ts';
import { measuresOf, type WholeAnswer } from './whole-answer-reader.ts';

/** What is known of the audio of a call, against which is held what its upstream says that it heard. */
export type Heard = {
  length: Pick<AudioLength, 'estimateMs' | 'measuredMs' | 'longestMs'>;
  /** Bytes that were sent beside the audio. */
  besideBytes: number;
  bound: UsageBound;
};

/** What an upstream reported, unless the audio is too short for it: null then, as when it reported nothing. */
export async function believedOfAudio(
  usage: ReportedUsage | Pick<Measures, 'audioMs'> | null,
  { length, besideBytes, bound }: Heard,
): Promise<Partial<Measures> | null> {
  if (usage === null) return null;
  const used = 'totalTokens' in usage ? measuresOf(usage) : usage;
  // Files need not be read for what their size allows.
  if (canTranscriptUse(used, length.estimateMs, besideBytes)) return used;
  if (canTranscriptUse(used, await length.longestMs(), besideBytes)) return used;
  bound.disbelieve(used);
  return null;
}

export type TranscriptRules = {
  /** Whether the upstream answers JSON. */
  isJson: boolean;
  /** Whether the client wants a text. */
  isText: boolean;
  /** Whether it is to get the events of a stream. */
  asEvents: boolean;
  heard: Heard;
  tools: Pick<CallTools, 'tokenizer'>;
};

const fields = fieldSet('text', 'usage', 'duration', 'type', 'error', 'object');

/**
 * Reads a whole transcript; it is passed on byte for byte, unless the client wants the text of a JSON alone, or its events. The seconds
 * of audio are measured whatever else the upstream counts: a model is priced by them or by tokens, and its price says which is sold. Null
 * when it is no transcript.
 */
export function readTranscript(
  body: Buffer,
  { isJson, isText, asEvents, heard, tools }: TranscriptRules,
): WholeAnswer | null {
  const scan = new ObjectScan(fields);
  if (isJson && (scan.read(body) !== null || scan.kind('text') !== 'string')) return null;
  // Some servers answer 200 and an error.
  if (isJson && isError(scan)) return null;
  if (asEvents && scan.hasDuplicate) return null;
  const forward = asEvents ? eventsOf(scan) : isJson && isText ? [Buffer.from(scan.string('text')!)] : [body];
  const countTokens = async (text: string): Promise<Partial<Measures>> => ({
    outputTokens: await (await tools.tokenizer()).count(text),
  });
  // Subtitles and plain text carry no usage.
  if (!isJson) {
    const text = body.toString('utf8');
    const counted = async () => ({
      ...(await countTokens(text)),
      audioMs: await heard.length.measuredMs(lastCueMs(text)),
    });
    return { forward, reported: null, counted };
  }

  const duration = scan.number('duration');
  const told = duration !== undefined && duration >= 0 ? { audioMs: Math.round(duration * 1000) } : null;
  const counted = async () => {
    const used = await believedOfAudio(readUsage(scan.json('usage')), heard);
    const audioMs = used?.audioMs ?? (await believedOfAudio(told, heard))?.audioMs;
    return {
      ...(used ?? (await countTokens(scan.string('text')!))),
      audioMs: audioMs ?? (await heard.length.measuredMs()),
    };
  };
  return { forward, reported: null, counted };
}

/** The events of a whole transcript: one with all of its text, and the last one with all of it. */
function eventsOf(transcript: ObjectScan<(typeof fields.names)[number]>): readonly Uint8Array[] {
  toOneLine(transcript.bytes);
  const delta = { type: 'transcript.text.delta', delta: transcript.string('text')! };
  const deltaFrame = delta.delta === '' ? '' : `data: ${JSON.stringify(delta)}\n\n`;
  const done = spliceMembers(transcript, [['type', '"transcript.text.done"']]);
  return [Buffer.from(deltaFrame), framePrefix, ...done, frameSuffix];
}

const cueEnd = /--> *(?:(\d+):)?(\d\d):(\d\d)[.,](\d{3})/g;

/** Where the last subtitle of SRT or WebVTT ends, in milliseconds; 0 without any. WebVTT leaves out hours that are none. */
function lastCueMs(text: string): number {
  let endMs = 0;
  for (const [, hours = '0', minutes, seconds, ms] of text.matchAll(cueEnd)) {
    endMs = Math.max(endMs, ((Number(hours) * 60 + Number(minutes)) * 60 + Number(seconds)) * 1000 + Number(ms));
  }
  return endMs;
}
