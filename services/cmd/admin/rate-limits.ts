import type { ParseArgsOptionsConfig } from 'node:util';
import { type RateLimits, rateLimitsMax } from '#shared/rate-limits.ts';
import { type AdminArguments, wholeNumber } from './command.ts';

/** The arguments that set rate limits. */
export const limitOptions: ParseArgsOptionsConfig = {
  requests: { type: 'string' },
  tokens: { type: 'string' },
  concurrent: { type: 'string' },
};

/** The limits that were given; null when there are none. */
export function limitsOf(args: AdminArguments): Partial<RateLimits> | null {
  const given = {
    requestsPerMinute: wholeNumber(args, 'requests', rateLimitsMax.requestsPerMinute),
    tokensPerMinute: wholeNumber(args, 'tokens', rateLimitsMax.tokensPerMinute),
    concurrentRequests: wholeNumber(args, 'concurrent', rateLimitsMax.concurrentRequests),
  };
  const entries = Object.entries(given).filter(([, value]) => value !== undefined);
  return entries.length === 0 ? null : Object.fromEntries(entries);
}

export const shownLimits = (limits: RateLimits | undefined) => ({
  requests_per_minute: limits?.requestsPerMinute ?? 0,
  tokens_per_minute: limits?.tokensPerMinute ?? 0,
  concurrent_requests: limits?.concurrentRequests ?? 0,
});
