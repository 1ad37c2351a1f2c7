import { type Part, partsOf } from '../domain/parts.ts';
import type { Parameters } from './narrowing.ts';

const columns = `user_id, api_key_id, model, endpoint, requests, successful_requests, input_tokens, cached_input_tokens, output_tokens,
  images, audio_ms, characters, duration_ms, cost_nano_usd, cache_hits, cache_misses, generating_ms`;

/** A relation of roll-up rows, each with the number of the part of time it was read for. */
export type RolledUp = { source: string; parts: readonly Part[] };

/**
 * The roll-ups between the first and the last of some cuts as a relation `rolled_up` out of both tiers; `inBuckets` puts sums by its
 * column `part` together. `where` is the condition on its other columns.
 */
export function rolledUp(parameters: Parameters, where: string, cutsMs: readonly number[]): RolledUp {
  const parts = partsOf(cutsMs);
  // `offset 0` keeps the planner from reading all time once and comparing every row with every range.
  const read = (table: string, tier: Part['tier']): string => {
    const ranges = [...parts.entries()].filter(([, part]) => part.tier === tier);
    const add = (values: readonly unknown[], type: string) => parameters.add(values, type);
    const numbers = add(
      ranges.map(([number]) => number),
      'int[]',
    );
    const starts = add(isoTimes(ranges.map(([, { startMs }]) => startMs)), 'timestamptz[]');
    const ends = add(isoTimes(ranges.map(([, { endMs }]) => endMs)), 'timestamptz[]');
    return `select range.part, rows.* from unnest(${numbers}, ${starts}, ${ends}) as range (part, from_time, to_time) cross join lateral (
      select ${columns} from ${table} where ${where} and bucket_start >= from_time and bucket_start < to_time offset 0) as rows`;
  };
  const source = `(${read('daily_rollups', 'day')} union all ${read('rollups', 'quarterHour')}) as rolled_up`;
  return { source, parts };
}

/** What the sums of each part do to which buckets: once or twice for each row. */
export function* inBuckets<Row extends { part: number }>(
  rows: readonly Row[],
  parts: readonly Part[],
): Generator<{ row: Row; bucket: number; sign: 1n | -1n }> {
  for (const row of rows) {
    const { addTo, takeFrom } = parts[row.part]!;
    if (addTo !== null) yield { row, bucket: addTo, sign: 1n };
    if (takeFrom !== null) yield { row, bucket: takeFrom, sign: -1n };
  }
}

const isoTimes = (times: readonly number[]): string[] => times.map((ms) => new Date(ms).toISOString());
