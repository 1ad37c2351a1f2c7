import type { ServiceDatabase } from '#shared/db/orm.ts';

/** The monthly partitions of events, as one process knows them. */
export type Partitions = {
  /** Makes sure that a month (`2026-11-01`) has its partition; false when it is past retention. */
  ensure(month: string): Promise<boolean>;
  /** Forgets what is known, since a partition turned out to be gone. */
  forget(): void;
};

/** The UTC month of a moment, by its first day. */
export const monthOf = (ms: number): string => `${new Date(ms).toISOString().slice(0, 7)}-01`;

export function createPartitions(database: Pick<ServiceDatabase, 'query'>): Partitions {
  const known = new Set<string>();
  return {
    async ensure(month) {
      if (known.has(month)) return true;
      const { rows } = await database.query<{ kept: boolean }>({
        text: 'select add_events_partition($1) as kept',
        values: [month],
      });
      if (rows[0]!.kept) known.add(month);
      return rows[0]!.kept;
    },
    forget: () => known.clear(),
  };
}
