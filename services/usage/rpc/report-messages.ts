import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { NamedSums } from '../db/grouped-sums.ts';
import { byCost, measuresMessage } from '../db/sums.ts';
import type { InstantRange } from '../domain/time-buckets.ts';
import type { KeyLabels } from './key-labels.ts';

export const rangeMessage = ({ startMs, endMs }: InstantRange) => ({
  start: timestampFromMs(startMs),
  end: timestampFromMs(endMs),
});

/** A row of a split; `labels` are for a split by key. */
export const namedMeasures = (row: NamedSums, labels?: KeyLabels) => ({
  name: row.name,
  measures: measuresMessage(row),
  key: labels?.get(row.name),
});

/** The rows of a split, most expensive first. */
export const dearestFirst = (rows: NamedSums[], labels?: KeyLabels) =>
  rows.sort(byCost).map((row) => namedMeasures(row, labels));
