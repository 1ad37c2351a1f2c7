import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { Subject } from '../domain/subject.ts';
import { type Dimension, nameIn } from './grouped-sums.ts';
import { type Filter, narrowing, Parameters } from './narrowing.ts';
import { inBuckets, rolledUp } from './rolled-up.ts';
import { measureSums, type Sums } from './sums.ts';

/** The sums of one group in one bucket; buckets are numbered from 0. */
export type BucketSums = Sums & { bucket: number; name: string };

/** The most sums read for a report: as JSON they have 18 MB, and while it is made they take 100 MB. */
const rowsMax = 50_000;

/**
 * The sums of buckets with traffic, split by a dimension if one is given; otherwise all names are empty.
 *
 * @throws GatewayError RANGE_TOO_LARGE when there are too many to be held in memory.
 */
export async function bucketedSums(
  database: Pick<ServiceDatabase, 'query'>,
  query: {
    subject: Subject;
    filter?: Filter;
    dimension?: Dimension;
    /** The start of each bucket, and the end of the last. */
    startsMs: readonly number[];
    endMs: number;
  },
): Promise<BucketSums[]> {
  const { subject, filter, dimension, startsMs, endMs } = query;
  const parameters = new Parameters();
  const where = narrowing(parameters, subject, filter);
  const { name, text, parts } = rolledUp(parameters, {
    where,
    cutsMs: [...startsMs, endMs],
    columns: dimension === undefined ? [] : [dimension],
    measures: measureSums.columns,
    sums: measureSums.sql,
    rowsMax,
  });
  const { rows } = await database.query<Sums & { part: number } & Partial<Record<Dimension, string>>>({
    // Prepared, since it is the same for all reports of a kind, and planning it takes as long as summing some thousand rows.
    name,
    text,
    values: parameters.values,
  });
  if (rows.length > rowsMax) {
    throw gatewayError(
      ErrorReason.RANGE_TOO_LARGE,
      `Split by \`group_by\`, this report has more than ${rowsMax.toLocaleString('en')} rows: ask for fewer days, longer buckets, or one model, endpoint or API key.`,
      { param: 'group_by' },
    );
  }

  const groups = new Map<string, BucketSums>();
  for (const { row, bucket, sign } of inBuckets(rows, parts)) {
    const name = dimension === undefined ? '' : nameIn(row[dimension]!);
    const key = `${bucket} ${name}`;
    const group = groups.get(key) ?? { bucket, name, ...measureSums.none() };
    groups.set(key, group);
    measureSums.add(group, row, sign);
  }
  // Everything that a day or week added for a group may have been subtracted again.
  return [...groups.values()].filter(({ requests }) => requests > 0n);
}
