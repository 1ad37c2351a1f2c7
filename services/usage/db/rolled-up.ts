import { tierRanges } from '../domain/tier-ranges.ts';
import type { InstantRange } from '../domain/time-buckets.ts';
import type { Parameters } from './narrowing.ts';

const columns = `bucket_start, user_id, api_key_id, model, endpoint, requests, successful_requests, input_tokens,
  cached_input_tokens, output_tokens, images, audio_ms, characters, duration_ms, cost_nano_usd, cache_hits, cache_misses, generating_ms`;

/**
 * The roll-ups between the first and the last of some cuts as a relation `rolled_up`, out of both tiers: a row's bucket_start tells
 * between which cuts all of it lies. `where` is the condition on its other columns.
 */
export function rolledUp(parameters: Parameters, where: string, cutsMs: readonly number[]): string {
  const { days, quarterHours } = tierRanges(cutsMs);
  // `offset 0` keeps the planner from reading all time once and comparing every row with every range.
  const part = (tier: string, ranges: readonly InstantRange[]): string => {
    const starts = parameters.add(isoTimes(ranges.map(({ startMs }) => startMs)), 'timestamptz[]');
    const ends = parameters.add(isoTimes(ranges.map(({ endMs }) => endMs)), 'timestamptz[]');
    return `select part.* from unnest(${starts}, ${ends}) as range (from_time, to_time) cross join lateral (
      select ${columns} from ${tier} where ${where} and bucket_start >= from_time and bucket_start < to_time offset 0) as part`;
  };
  return `(${part('daily_rollups', days)} union all ${part('rollups', quarterHours)}) as rolled_up`;
}

export const isoTimes = (times: readonly number[]): string[] => times.map((ms) => new Date(ms).toISOString());
