import { isObject } from '#shared/is-object.ts';

/** Usage as an upstream reported it, in one shape for all operations. Zeros that it reported are zeros. */
export type ReportedUsage = {
  /** Cached tokens included. Null: neither reported nor deducible from the total. */
  inputTokens: number | null;
  cachedInputTokens: number;
  /** Hidden reasoning included. Null: as above. */
  outputTokens: number | null;
  totalTokens: number;
  /** The length of the audio, for transcriptions billed by it. Null: not reported. */
  audioMs: number | null;
};

/** More tokens, or milliseconds of audio, than any call uses: such a report is not to be believed. */
const countMax = 100_000_000;

/**
 * Reads a parsed `usage` of chat, completions and embeddings (`prompt_tokens …`), of images and transcriptions (`input_tokens …`) or of
 * transcriptions by length (`{type:"duration",seconds}`). Null when it is none of them or contains an impossible figure (negative, a
 * fraction of a token, or beyond any call), so that the gateway counts by itself. Cached tokens are only a discount: an impossible or
 * missing figure for them is 0.
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
  // xAI and Gemini include reasoning only in the total.
  const outputTokens = told === null ? null : Math.max(told, leftOver(total, input) ?? 0);
  const totalTokens = typeof total === 'number' ? total : (inputTokens ?? 0) + (outputTokens ?? 0);
  const inputTokensMax = inputTokens ?? totalTokens;
  const details = usage.prompt_tokens_details ?? usage.input_tokens_details ?? usage.input_token_details;
  const { cached_tokens } = isObject(details) ? details : {};
  // Moonshot and Together report them beside the other figures, DeepSeek under another name.
  const cached = cached_tokens ?? usage.cached_tokens ?? usage.prompt_cache_hit_tokens;
  return {
    inputTokens,
    cachedInputTokens: Math.min(countOr0(cached), inputTokensMax),
    outputTokens,
    totalTokens,
    audioMs: audioMs ?? null,
  };
}

/** What was used of both; a figure that only one of them has is that. */
export function usageOfBoth(one: ReportedUsage | null, other: ReportedUsage | null): ReportedUsage | null {
  if (one === null || other === null) return one ?? other;
  const sum = (a: number | null, b: number | null) => (a === null && b === null ? null : (a ?? 0) + (b ?? 0));
  return {
    inputTokens: sum(one.inputTokens, other.inputTokens),
    cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
    outputTokens: sum(one.outputTokens, other.outputTokens),
    totalTokens: one.totalTokens + other.totalTokens,
    audioMs: sum(one.audioMs, other.audioMs),
  };
}

const toldOrLeft = (figure: unknown, total: unknown, other: unknown): number | null =>
  typeof figure === 'number' ? figure : leftOver(total, other);

/** The excess of the total over a figure; null when there is none, for then the total may be that figure alone. */
const leftOver = (total: unknown, figure: unknown): number | null =>
  typeof total === 'number' && typeof figure === 'number' && total > figure ? total - figure : null;

/** Whether a foreign JSON value can be a call's number of tokens or milliseconds. */
const isCount = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= countMax;

/** A count from foreign JSON; 0 for what cannot be one. */
export const countOr0 = (value: unknown): number => (isCount(value) ? value : 0);
