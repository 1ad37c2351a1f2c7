import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import type { CallTools } from './call-tools.ts';
import { measuresOf, type WholeAnswer } from './whole-answer-reader.ts';

export type TranscriptRules = {
  isJson: boolean;
  /** The file's length by its own header, for an upstream that does not say. */
  durationMs: number;
  tools: Pick<CallTools, 'tokenizer'>;
};

const fields = fieldSet('text', 'usage', 'duration');

/**
 * Reads a whole transcript; it is passed on byte for byte. The seconds of audio are measured whatever else the upstream counts:
 * a model is priced by them or by tokens, and its price says which is sold. Null when it is no transcript.
 */
export function readTranscript(body: Buffer, { isJson, durationMs, tools }: TranscriptRules): WholeAnswer | null {
  const counting = (text: string, audioMs: number): WholeAnswer => ({
    forward: [body],
    reported: null,
    counted: async () => ({ audioMs, outputTokens: (await tools.tokenizer()).count(text) }),
  });
  // Subtitles and plain text carry no usage.
  if (!isJson) return counting(body.toString('utf8'), durationMs);

  const scan = new ObjectScan(fields);
  if (scan.read(body) !== null || scan.kind('text') !== 'string') return null;
  const duration = scan.number('duration');
  const audioMs =
    duration !== undefined && duration > 0 && duration < 86_400 ? Math.round(duration * 1000) : durationMs;
  const usage = readUsage(scan.json('usage'));
  if (usage === null) return counting(scan.string('text')!, audioMs);
  return {
    forward: [body],
    reported: { ...measuresOf(usage), audioMs: usage.audioMs || audioMs },
    counted: async () => ({}),
  };
}
