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

/**
 * Reads a parsed `usage` of chat, completions and embeddings (`prompt_tokens …`), of images and transcriptions (`input_tokens …`) or of
 * transcriptions by length (`{type:"duration",seconds}`). Null when it is none of them. Values that are no counts are 0.
 */
export function readUsage(usage: unknown): ReportedUsage | null {
  if (!isObject(usage)) return null;
  const input = usage.prompt_tokens ?? usage.input_tokens;
  const output = usage.completion_tokens ?? usage.output_tokens;
  const { total_tokens: total, seconds } = usage;
  if ([input, output, total, seconds].every((value) => typeof value !== 'number')) return null;
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
    audioMs: typeof seconds === 'number' ? count(seconds * 1000) : 0,
  };
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A count out of somebody else's JSON: nothing negative, fractional, infinite or too large to be exact. */
function count(value: unknown): number {
  if (typeof value !== 'number' || !(value > 0)) return 0;
  return Math.min(Math.round(value), Number.MAX_SAFE_INTEGER);
}
