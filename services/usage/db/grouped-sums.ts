import type { ServiceDatabase } from '#shared/db/orm.ts';
import { noKeyId } from '../domain/roll-up.ts';
import type { Subject } from '../domain/subject.ts';
import type { InstantRange } from '../domain/time-buckets.ts';
import { type Filter, narrowing, Parameters } from './narrowing.ts';
import { rolledUp } from './rolled-up.ts';
import { noSums, type Sums, sumsSql } from './sums.ts';

/** What sums can be split by. */
export type Dimension = 'model' | 'endpoint' | 'api_key_id' | 'user_id';

export type NamedSums = Sums & { name: string };

/** The sums over a range, and the same split by each of the dimensions, out of one scan of the roll-ups. */
export async function groupedSums<D extends Dimension>(
  database: Pick<ServiceDatabase, 'query'>,
  query: { subject: Subject; range: InstantRange; filter?: Filter; dimensions: readonly D[] },
): Promise<{ totals: Sums } & Record<D, NamedSums[]>> {
  const { subject, range, filter, dimensions } = query;
  const parameters = new Parameters();
  const where = narrowing(parameters, subject, filter);
  const source = rolledUp(parameters, where, [range.startMs, range.endMs]);
  const sets = ['()', ...dimensions.map((dimension) => `(${dimension})`)].join(', ');
  const names = dimensions.map((dimension) => `${dimension}::text as ${dimension}`).join(', ');
  const { rows } = await database.query<Sums & Record<D, string | null>>({
    text: `select ${names}, ${sumsSql} from ${source} group by grouping sets (${sets})`,
    values: parameters.values,
  });

  const result = { totals: noSums() } as { totals: Sums } & Record<Dimension, NamedSums[]>;
  for (const dimension of dimensions) result[dimension] = [];
  for (const row of rows) {
    const dimension = dimensions.find((candidate) => row[candidate] !== null);
    if (dimension === undefined) result.totals = row;
    else result[dimension].push(Object.assign(row, { name: nameIn(row[dimension]!) }));
  }
  return result;
}

/** Sessions have no key: their group's name is empty. */
export const nameIn = (value: string): string => (value === noKeyId ? '' : value);
