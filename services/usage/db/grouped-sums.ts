import type { ServiceDatabase } from '#shared/db/orm.ts';
import { noKeyId } from '../domain/roll-up.ts';
import type { Subject } from '../domain/subject.ts';
import type { InstantRange } from '../domain/time-buckets.ts';
import { type Filter, narrowing, Parameters } from './narrowing.ts';
import { inBuckets, rolledUp } from './rolled-up.ts';
import { measureSums, type Sums } from './sums.ts';

/** What sums can be split by. */
export type Dimension = 'model' | 'endpoint' | 'api_key_id' | 'user_id';

export type NamedSums = Sums & { name: string };

/** The sums over a range, and the same split by each of the dimensions, from one scan of the roll-ups. */
export async function groupedSums<D extends Dimension>(
  database: Pick<ServiceDatabase, 'query'>,
  query: { subject: Subject; range: InstantRange; filter?: Filter; dimensions: readonly D[] },
): Promise<{ totals: Sums } & Record<D, NamedSums[]>> {
  const { subject, range, filter, dimensions } = query;
  const parameters = new Parameters();
  const where = narrowing(parameters, subject, filter);
  const { text, parts } = rolledUp(parameters, {
    where,
    cutsMs: [range.startMs, range.endMs],
    columns: dimensions,
    measures: measureSums.columns,
    sums: measureSums.sql,
  });
  const sets = ['(part)', ...dimensions.map((dimension) => `(part, ${dimension})`)].join(', ');
  const { rows } = await database.query<Sums & { part: number } & Record<D, string | null>>({
    // Grouped by all dimensions at once, so that each row is added up once, not once per split.
    text: `select part, ${dimensions.join(', ')}, ${measureSums.sql} from (${text}) as summed group by grouping sets (${sets})`,
    values: parameters.values,
  });

  const totals = measureSums.none();
  const groups = new Map(dimensions.map((dimension) => [dimension, new Map<string, NamedSums>()]));
  for (const { row, sign } of inBuckets(rows, parts)) {
    const dimension = dimensions.find((candidate) => row[candidate] !== null);
    measureSums.add(
      dimension === undefined ? totals : groupOf(groups.get(dimension)!, nameIn(row[dimension]!)),
      row,
      sign,
    );
  }
  // Everything that a day or week added for a group may have been subtracted again.
  const withTraffic = (group: Map<string, NamedSums>) => [...group.values()].filter(({ requests }) => requests > 0n);
  const split = Object.fromEntries([...groups].map(([dimension, group]) => [dimension, withTraffic(group)]));
  return { totals, ...(split as Record<D, NamedSums[]>) };
}

function groupOf(groups: Map<string, NamedSums>, name: string): NamedSums {
  const group = groups.get(name) ?? { name, ...measureSums.none() };
  groups.set(name, group);
  return group;
}

/** Sessions have no key: the name of their group is empty. */
export const nameIn = (value: string): string => (value === noKeyId ? '' : value);
