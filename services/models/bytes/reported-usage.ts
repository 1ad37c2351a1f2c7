import { isObject } from '#shared/is-object.ts';

/** Usage as an upstream reported it, in one shape for all operations. Zeros that it reported are zeros. */
export type ReportedUsage = {
  /** Cached tokens included. Null: not told, nor by what the total leaves over. */
  inputTokens: number | null;
  cachedInputTokens: number;
  /** What was reasoned out of sight included. Null: as above. */
  outputTokens: number | null;
  totalTokens: number;
  /** Those of the input tokens that were audio. */
  audioInputTokens: number;
  /** Length of the audio, of transcriptions that are billed by it. Null: not told. */
  audioMs: number | null;
};

/** More tokens, or milliseconds of audio, than any call uses: whoever says so does not know. */
const countMax = 100_000_000;

/**
 * Reads a parsed `usage` of chat, completions and embeddings (`prompt_tokens …`), of images and transcriptions (`input_tokens …`) or of
 * transcriptions by length (`{type:"duration",seconds}`). Null when it is none of them, or has a figure that cannot be
 * true (negative, a fraction of a token, or beyond any call), so that the gateway counts by itself. Of the parts of the input such
 * a figure is 0, as one that is missing: they are no more than a discount, or a note.
 */
export function readUsage(usage: unknown): ReportedUsage | null {
  if (!isObject(usage)) return null;
  const input = usage.prompt_tokens ?? usage.input_tokens;
  const output = usage.completion_tokens ?? usage.output_tokens;
  const { total_tokens: total, seconds } = usage;
  const audioMs = typeof seconds === 'number' ? Math.round(seconds * 1000) : undefined;
  const figures = [input, output, total, audioMs].filter((value) => typeof value === 'number');
  if (figures.length === 0 || !figures.every(isCount)) return null;
  const inputTokens = toldOrLeft(input, total, output);
  const told = toldOrLeft(output, total, input);
  // xAI and Gemini have what was reasoned in the total alone.
  const outputTokens = told === null ? null : Math.max(told, leftOver(total, input) ?? 0);
  const totalTokens = typeof total === 'number' ? total : (inputTokens ?? 0) + (outputTokens ?? 0);
  const inputTokensMax = inputTokens ?? totalTokens;
  const details = usage.prompt_tokens_details ?? usage.input_tokens_details ?? usage.input_token_details;
  const { cached_tokens, audio_tokens: audio } = isObject(details) ? details : {};
  // Moonshot and Together tell them beside the other figures, DeepSeek under a name of its own.
  const cached = cached_tokens ?? usage.cached_tokens ?? usage.prompt_cache_hit_tokens;
  return {
    inputTokens,
    cachedInputTokens: Math.min(countOr0(cached), inputTokensMax),
    outputTokens,
    totalTokens,
    audioInputTokens: Math.min(countOr0(audio), inputTokensMax),
    audioMs: audioMs ?? null,
  };
}

const toldOrLeft = (figure: unknown, total: unknown, other: unknown): number | null =>
  typeof figure === 'number' ? figure : leftOver(total, other);

/** What the total has beyond a figure; null when it has nothing, for then it may be of that one alone. */
const leftOver = (total: unknown, figure: unknown): number | null =>
  typeof total === 'number' && typeof figure === 'number' && total > figure ? total - figure : null;

/** Whether a value out of somebody else's JSON can be a count of a call's tokens or milliseconds. */
const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= countMax;

/** A count out of somebody else's JSON; 0 for what can be none. */
export const countOr0 = (value: unknown): number => (isCount(value) ? value : 0);
