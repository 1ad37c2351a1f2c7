import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import type { CallTools } from './call-tools.ts';
import { measuresOf, type WholeAnswer } from './whole-answer-reader.ts';

export type TranscriptRules = {
  /** Whether the upstream answers JSON. */
  isJson: boolean;
  /** Whether the client wants a text. */
  isText: boolean;
  /** The file's length by its own header, for an upstream that does not say. */
  durationMs: number;
  tools: Pick<CallTools, 'tokenizer'>;
};

const fields = fieldSet('text', 'usage', 'duration');

/**
 * Reads a whole transcript; it is passed on byte for byte, unless the client wants the text of a JSON alone. The seconds of audio are
 * measured whatever else the upstream counts: a model is priced by them or by tokens, and its price says which is sold. Null when it
 * is no transcript.
 */
export function readTranscript(
  body: Buffer,
  { isJson, isText, durationMs, tools }: TranscriptRules,
): WholeAnswer | null {
  const scan = new ObjectScan(fields);
  if (isJson && (scan.read(body) !== null || scan.kind('text') !== 'string')) return null;
  const forward = isJson && isText ? [Buffer.from(scan.string('text')!)] : [body];
  const counting = (text: string, audioMs: number): WholeAnswer => ({
    forward,
    reported: null,
    counted: async () => ({ audioMs, outputTokens: (await tools.tokenizer()).count(text) }),
  });
  // Subtitles and plain text carry no usage.
  if (!isJson) return counting(body.toString('utf8'), durationMs);

  const duration = scan.number('duration');
  const audioMs =
    duration !== undefined && duration >= 0 && duration < 86_400 ? Math.round(duration * 1000) : durationMs;
  const usage = readUsage(scan.json('usage'));
  if (usage === null) return counting(scan.string('text')!, audioMs);
  return {
    forward,
    reported: { ...measuresOf(usage), audioMs: usage.audioMs ?? audioMs },
    counted: async () => ({}),
  };
}
