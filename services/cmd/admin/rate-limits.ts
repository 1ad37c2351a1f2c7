import type { ParseArgsOptionsConfig } from 'node:util';
import { type RateLimits, rateLimitsMax } from '#shared/rate-limits.ts';
import { type AdminArguments, UsageError, wholeNumber } from './command.ts';

/** The arguments that set rate limits. */
export const limitOptions: ParseArgsOptionsConfig = {
  requests: { type: 'string' },
  tokens: { type: 'string' },
  concurrent: { type: 'string' },
};

/** The limits that were given. */
export const namedLimits = (args: AdminArguments) => ({
  requestsPerMinute: wholeNumber(args, 'requests', rateLimitsMax.requestsPerMinute),
  tokensPerMinute: wholeNumber(args, 'tokens', rateLimitsMax.tokensPerMinute),
  concurrentRequests: wholeNumber(args, 'concurrent', rateLimitsMax.concurrentRequests),
});

/**
 * The change of limits that was asked for, as requests state it: without `changes` for the option that takes all limits back. Null when
 * nothing was asked for.
 */
export function limitsOf(args: AdminArguments, takeBack: string): { changes?: Partial<RateLimits> } | null {
  const entries = Object.entries(namedLimits(args)).filter(([, value]) => value !== undefined);
  if (args.values[takeBack] !== true) return entries.length === 0 ? null : { changes: Object.fromEntries(entries) };
  if (entries.length > 0) throw new UsageError(`--${takeBack} takes all limits back: leave out the others`);
  return {};
}

export const shownLimits = (limits: RateLimits | undefined) => ({
  requests_per_minute: limits?.requestsPerMinute ?? 0,
  tokens_per_minute: limits?.tokensPerMinute ?? 0,
  concurrent_requests: limits?.concurrentRequests ?? 0,
});
