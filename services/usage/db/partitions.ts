import type { ServiceDatabase } from '#shared/db/orm.ts';

/** The monthly partitions of events, as far as one process knows them. */
export type Partitions = {
  /** Whether the UTC month of a moment is known to have a partition. */
  has(ms: number): boolean;
  /** Makes sure that the month of a moment has a partition; false when it is past retention. */
  ensure(ms: number): Promise<boolean>;
  /** Forgets everything known, since a partition turned out to be gone. */
  forget(): void;
};

export function createPartitions(database: Pick<ServiceDatabase, 'query'>): Partitions {
  /** Months, numbered from year 0. */
  const known = new Set<number>();
  return {
    has: (ms) => known.has(monthNumber(ms)),
    async ensure(ms) {
      const { rows } = await database.query<{ kept: boolean }>({
        text: 'select add_events_partition($1) as kept',
        values: [`${new Date(ms).toISOString().slice(0, 7)}-01`],
      });
      if (rows[0]!.kept) known.add(monthNumber(ms));
      return rows[0]!.kept;
    },
    forget: () => known.clear(),
  };
}

function monthNumber(ms: number): number {
  const date = new Date(ms);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
}
