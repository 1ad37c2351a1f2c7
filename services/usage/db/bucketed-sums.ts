import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Subject } from '../domain/subject.ts';
import { type Dimension, nameIn } from './grouped-sums.ts';
import { type Filter, narrowing, Parameters } from './narrowing.ts';
import { isoTimes, rolledUp } from './rolled-up.ts';
import { type Sums, sumsSql } from './sums.ts';

/** The sums of one group in one bucket, which is counted from 0. */
export type BucketSums = Sums & { bucket: number; name: string };

/** The sums per bucket with traffic, split by a dimension when one is given; otherwise all names are empty. */
export async function bucketedSums(
  database: Pick<ServiceDatabase, 'query'>,
  query: {
    subject: Subject;
    filter?: Filter;
    dimension?: Dimension;
    /** The first instants of the buckets, and the end of the last. */
    startsMs: readonly number[];
    endMs: number;
  },
): Promise<BucketSums[]> {
  const { subject, filter, dimension, startsMs, endMs } = query;
  const parameters = new Parameters();
  const where = narrowing(parameters, subject, filter);
  const source = rolledUp(parameters, where, [...startsMs, endMs]);
  const starts = parameters.add(isoTimes(startsMs), 'timestamptz[]');
  // A binary search over the boundaries, which were cut once, instead of a time zone's arithmetic for each row.
  const { rows } = await database.query<BucketSums>({
    text: `select width_bucket(bucket_start, ${starts}) - 1 as bucket, ${dimension ?? `''`}::text as name, ${sumsSql}
      from ${source} group by 1, 2`,
    values: parameters.values,
  });
  for (const row of rows) row.name = nameIn(row.name);
  return rows;
}
