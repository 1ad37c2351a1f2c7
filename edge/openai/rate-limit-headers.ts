import type { RateLimitState } from '#gen/modelgateway/models/v1/inference_service_pb.ts';

/** The x-ratelimit-* headers that SDKs read: counts as integers, waits as Go durations (openai-contract.md section 1). */
export function rateLimitHeaders(state: RateLimitState | undefined): Record<string, string> {
  const headers: Record<string, string> = {};
  if (state !== undefined) addRateLimitHeaders(headers, state);
  return headers;
}

/** Adds the x-ratelimit-* headers to those of an answer. */
export function addRateLimitHeaders(headers: Record<string, unknown>, state: RateLimitState): void {
  headers['x-ratelimit-limit-requests'] = String(state.limitRequests);
  headers['x-ratelimit-remaining-requests'] = String(state.remainingRequests);
  headers['x-ratelimit-reset-requests'] = goDuration(state.resetRequestsMs);
  headers['x-ratelimit-limit-tokens'] = String(state.limitTokens);
  headers['x-ratelimit-remaining-tokens'] = String(state.remainingTokens);
  headers['x-ratelimit-reset-tokens'] = goDuration(state.resetTokensMs);
}

/** A duration as Go writes it: 20ms, 1.2s, 6m0s. */
function goDuration(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)}ms`;
  const seconds = Math.round(ms / 10) / 100;
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  const rest = `${Math.round((seconds - minutes * 60) * 100) / 100}s`;
  return minutes < 60 ? `${minutes}m${rest}` : `${Math.floor(minutes / 60)}h${minutes % 60}m${rest}`;
}
