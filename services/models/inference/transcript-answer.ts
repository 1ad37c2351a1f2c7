import type { AudioLength } from '../audio/audio-length.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import type { CallTools } from './call-tools.ts';
import { measuresOf, type WholeAnswer } from './whole-answer-reader.ts';

export type TranscriptRules = {
  /** Whether the upstream answers JSON. */
  isJson: boolean;
  /** Whether the client wants a text. */
  isText: boolean;
  /** The file's own length, for an upstream that does not say. */
  length: Pick<AudioLength, 'measuredMs'>;
  tools: Pick<CallTools, 'tokenizer'>;
};

const fields = fieldSet('text', 'usage', 'duration');

/**
 * Reads a whole transcript; it is passed on byte for byte, unless the client wants the text of a JSON alone. The seconds of audio are
 * measured whatever else the upstream counts: a model is priced by them or by tokens, and its price says which is sold. Null when it
 * is no transcript.
 */
export function readTranscript(body: Buffer, { isJson, isText, length, tools }: TranscriptRules): WholeAnswer | null {
  const scan = new ObjectScan(fields);
  if (isJson && (scan.read(body) !== null || scan.kind('text') !== 'string')) return null;
  const forward = isJson && isText ? [Buffer.from(scan.string('text')!)] : [body];
  const counting = (text: string, audioMs: () => Promise<number>): WholeAnswer => ({
    forward,
    reported: null,
    counted: async () => ({ audioMs: await audioMs(), outputTokens: (await tools.tokenizer()).count(text) }),
  });
  // Subtitles and plain text carry no usage.
  if (!isJson) {
    const text = body.toString('utf8');
    return counting(text, () => length.measuredMs(lastCueMs(text)));
  }

  const duration = scan.number('duration');
  const told = duration !== undefined && duration >= 0 && duration < 86_400 ? Math.round(duration * 1000) : null;
  const audioMs = async (): Promise<number> => told ?? length.measuredMs();
  const usage = readUsage(scan.json('usage'));
  if (usage === null) return counting(scan.string('text')!, audioMs);
  const counted = measuresOf(usage);
  if (usage.audioMs !== null) return { forward, reported: counted, counted: async () => ({}) };
  return { forward, reported: null, counted: async () => ({ ...counted, audioMs: await audioMs() }) };
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
