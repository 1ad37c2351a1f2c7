/** Usage as an upstream reported it, in one shape for all operations. Zeros that it reported are zeros. */
export type ReportedUsage = {
  /** Cached tokens included. */
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  totalTokens: number;
  /** Those of the input tokens that were audio. */
  audioInputTokens: number;
  /** Length of the audio for transcriptions that are billed by it; else 0. */
  audioMs: number;
};

type Json = Record<string, unknown>;

/** More tokens, or milliseconds of audio, than any call uses: whoever says so does not know. */
const countMax = 100_000_000;

/**
 * Reads a parsed `usage` of chat, completions and embeddings (`prompt_tokens …`), of images and transcriptions (`input_tokens …`) or of
 * transcriptions by length (`{type:"duration",seconds}`). Null when it is none of them, or absurd, so that the gateway
 * counts by itself. Values that are no counts are 0.
 */
export function readUsage(usage: unknown): ReportedUsage | null {
  if (!isObject(usage)) return null;
  const input = usage.prompt_tokens ?? usage.input_tokens;
  const output = usage.completion_tokens ?? usage.output_tokens;
  const { total_tokens: total, seconds } = usage;
  const audioMs = typeof seconds === 'number' ? seconds * 1000 : undefined;
  const counts = [input, output, total, audioMs].filter((value) => typeof value === 'number');
  if (counts.length === 0 || counts.some((value) => value > countMax)) return null;
  const outputTokens = count(output);
  // Some upstreams report an embedding's tokens as the total only.
  const inputTokens = typeof input === 'number' ? count(input) : Math.max(0, count(total) - outputTokens);
  const details = usage.prompt_tokens_details ?? usage.input_tokens_details ?? usage.input_token_details;
  const { cached_tokens: cached, audio_tokens: audio } = isObject(details) ? details : {};
  return {
    inputTokens,
    cachedInputTokens: Math.min(count(cached), inputTokens),
    outputTokens,
    totalTokens: typeof total === 'number' ? count(total) : inputTokens + outputTokens,
    audioInputTokens: Math.min(count(audio), inputTokens),
    audioMs: count(audioMs),
  };
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A count out of somebody else's JSON: nothing negative, fractional or beyond any call. */
const count = (value: unknown): number =>
  typeof value === 'number' && value > 0 && value <= countMax ? Math.round(value) : 0;
