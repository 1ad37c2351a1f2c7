import { hash } from 'node:crypto';
import { type Part, partsOf } from '../domain/parts.ts';
import { arrayOf } from './binary.ts';
import type { Parameters } from './narrowing.ts';

/**
 * A statement that sums roll-up rows; each of its rows has the number of the part of time for which it was read. For more than two cuts its
 * text depends only on the columns and conditions, so that it is worth preparing, under a name that stands for the text: a name with a second
 * text would fail on each connection that knows the first.
 */
type RolledUp = { name: string; text: string; parts: readonly Part[] };

/** Ranges of time in the form that a statement reads: the table of its parts, and their starts and ends. */
type Ranges = { from: string; start: string; end: string };

/**
 * Sums the roll-ups between the first and the last of some cuts from all tiers, by part and by `columns`; `inBuckets` combines the parts.
 * `where` is the condition on columns other than time, `sums` the select list over the `measures`. With `rowsMax` it reads one row more than
 * that at most, which says that there are too many.
 */
export function rolledUp(
  parameters: Parameters,
  query: {
    where: string;
    cutsMs: readonly number[];
    columns: readonly string[];
    measures: readonly string[];
    sums: string;
    rowsMax?: number;
  },
): RolledUp {
  const { where, cutsMs, columns, measures, sums, rowsMax } = query;
  const parts = partsOf(cutsMs);
  const rangesOf = (...tiers: Part['tier'][]): Ranges => {
    const ranges = [...parts.entries()].filter(([, part]) => tiers.includes(part.tier));
    if (cutsMs.length === 2 && ranges.length === 1) {
      // Knowing the bounds, the planner knows how many rows to expect, and hashes instead of sorting.
      const [[number, { startMs, endMs }]] = ranges as [[number, Part]];
      const [start, end] = [startMs, endMs].map((ms) => parameters.add(new Date(ms).toISOString(), 'timestamptz'));
      return { from: `(values (${number})) as range (part)`, start: start!, end: end! };
    }
    const numbers = parameters.add(
      ranges.map(([number]) => number),
      'int[]',
    );
    // In binary: printing some hundred times takes a millisecond.
    const times = (read: (part: Part) => number) =>
      parameters.add(
        arrayOf('timestamptz', ranges, ([, part]) => read(part)),
        'timestamptz[]',
      );
    const [starts, ends] = [times(({ startMs }) => startMs), times(({ endMs }) => endMs)];
    return {
      from: `unnest(${numbers}, ${starts}, ${ends}) as range (part, from_time, to_time)`,
      start: 'from_time',
      end: 'to_time',
    };
  };
  const weeks = rangesOf('week');
  const days = rangesOf('day');
  const daysAndWeeks = rangesOf('day', 'week');
  const quarterHours = rangesOf('quarterHour');
  // `offset 0` keeps the planner from reading all time once and comparing every row with every range.
  const read = (list: string, table: string, { from, start, end }: Ranges, condition: string): string =>
    `select range.part, rows.* from ${from} cross join lateral (
      select ${list} from ${table} where ${condition} and bucket_start >= ${start} and bucket_start < ${end} offset 0) as rows`;
  const readAll = (list: string): string =>
    [
      read(list, 'weekly_rollups', weeks, where),
      read(list, 'daily_rollups', days, where),
      // What neither days nor weeks include yet.
      read(list, 'rollups', daysAndWeeks, `${where} and not in_day`),
      read(list, 'rollups', quarterHours, where),
    ].join(' union all ');

  // Each range is summed where it is read: passing on its rows would cost as much again.
  if (columns.length === 0) return { ...named(readAll(sums)), parts };
  // Not so with groups: the planner expects so few rows per range that it sorts instead of hashing.
  const names = columns.join(', ');
  const rows = readAll(`${names}, ${measures.join(', ')}`);
  const limit = rowsMax === undefined ? '' : ` limit ${rowsMax + 1}`;
  return {
    ...named(`select part, ${names}, ${sums} from (${rows}) as rolled_up group by part, ${names}${limit}`),
    parts,
  };
}

const named = (text: string) => ({ name: `sums-${hash('sha256', text, 'base64url')}`, text });

/** To which buckets the sums of each part are added or subtracted: once or twice per row. */
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
