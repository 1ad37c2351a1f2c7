import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { NamedSums } from '../db/grouped-sums.ts';
import { byCost, measuresMessage } from '../db/sums.ts';
import type { InstantRange } from '../domain/time-buckets.ts';

export const rangeMessage = ({ startMs, endMs }: InstantRange) => ({
  start: timestampFromMs(startMs),
  end: timestampFromMs(endMs),
});

/** Rows of a split, dearest first. */
export const dearestFirst = (rows: NamedSums[]) =>
  rows.sort(byCost).map((row) => ({ name: row.name, measures: measuresMessage(row) }));
