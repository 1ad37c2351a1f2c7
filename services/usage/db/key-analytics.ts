import { IsolationLevel } from '@mikro-orm/postgresql';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { firstIdAt } from '#shared/ids.ts';
import type { Subject } from '../domain/subject.ts';
import type { InstantRange } from '../domain/time-buckets.ts';
import type { EventRow } from './event-rows.ts';
import { narrowing, Parameters } from './narrowing.ts';
import { inBuckets, rolledUp } from './rolled-up.ts';
import { type Volume, volumeSums } from './sums.ts';

/**
 * Runs the queries of one report on one snapshot, so that its parts agree. They are planned without looking at the values: a key without
 * calls is read in the same way as one with millions, and only by indexes, since a plan outlives the time when a new month's partition is
 * empty.
 */
export const onOneSnapshot = <T>(
  database: Pick<ServiceDatabase, 'pool'>,
  work: (client: Sql) => Promise<T>,
): Promise<T> =>
  sqlTransaction(database, work, {
    isolationLevel: IsolationLevel.REPEATABLE_READ,
    settings: { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off' },
  });

/**
 * One key of one organization, for a member only their own: events and roll-ups have both, so the key need not be looked up, and an unknown
 * one is handled like any other.
 */
export type KeySubject = Subject & { keyId: string };

/** The volume of one model in one bucket; buckets are numbered from 0, and -1 is the time before the first. */
export type VolumeRow = Volume & { bucket: number; model: string };

/** A key's volume from `fromMs` on, by bucket and model. */
export async function volumesOfKey(
  client: Sql,
  query: { subject: KeySubject; fromMs: number; startsMs: readonly number[]; endMs: number },
): Promise<VolumeRow[]> {
  const { subject, fromMs, startsMs, endMs } = query;
  const parameters = new Parameters();
  const where = narrowing(parameters, subject, { apiKeyId: subject.keyId });
  const { name, text, parts } = rolledUp(parameters, {
    where,
    cutsMs: [fromMs, ...startsMs, endMs],
    columns: ['model'],
    measures: volumeSums.columns,
    sums: volumeSums.sql,
  });
  const { rows } = await client.query<Volume & { part: number; model: string }>({
    name,
    text,
    values: parameters.values,
  });

  const volumes = new Map<string, VolumeRow>();
  for (const { row, bucket, sign } of inBuckets(rows, parts)) {
    const key = `${bucket} ${row.model}`;
    const volume = volumes.get(key) ?? { bucket: bucket - 1, model: row.model, ...volumeSums.none() };
    volumes.set(key, volume);
    volumeSums.add(volume, row, sign);
  }
  // Everything that a day or week added for a group may have been subtracted again.
  return [...volumes.values()].filter(({ requests }) => requests > 0n);
}

/** Percentiles of the latency of a key's successful calls in some slices of time, each an actual latency; null if there are none. */
export async function latenciesOfKey(
  client: Sql,
  query: { subject: KeySubject; range: InstantRange; slices: readonly InstantRange[]; model: string },
): Promise<{ p50Ms: number; p95Ms: number } | null> {
  const { subject, range, slices, model } = query;
  const parameters = new Parameters();
  const where = eventsOfKey(parameters, subject, range, model);
  const ids = (end: 'startMs' | 'endMs') => slices.map((slice) => firstIdAt(slice[end]));
  const bounds = `${parameters.add(ids('startMs'), 'uuid[]')}, ${parameters.add(ids('endMs'), 'uuid[]')}`;
  const { rows } = await client.query<{ latencies: bigint[] | null }>({
    name: `key-latencies${variant(subject)}${model === '' ? '' : '-of-model'}`,
    text: `select percentile_disc(array[0.5, 0.95]) within group (order by latency_ms) as latencies
      from unnest(${bounds}) as slice (first_id, end_id) cross join lateral (
        select latency_ms from events where ${where} and id >= first_id and id < end_id and success
      ) as calls`,
    values: parameters.values,
  });
  const latencies = rows[0]?.latencies ?? null;
  return latencies === null ? null : { p50Ms: Number(latencies[0]), p95Ms: Number(latencies[1]) };
}

/** The rows of recent activity (service.md, Limits). */
const recentRows = 10;

/** A key's latest events of a range, newest first. */
export async function latestEventsOfKey(
  client: Sql,
  { subject, range }: { subject: KeySubject; range: InstantRange },
): Promise<EventRow[]> {
  const parameters = new Parameters();
  const where = eventsOfKey(parameters, subject, range);
  const { rows } = await client.query<EventRow>({
    name: `key-latest${variant(subject)}`,
    text: `select * from events where ${where} order by id desc limit ${recentRows}`,
    values: parameters.values,
  });
  return rows;
}

/** The range is a separate condition beside the slices, so that only the partitions of its months are opened. */
function eventsOfKey(parameters: Parameters, subject: KeySubject, range: InstantRange, model = ''): string {
  const where = narrowing(parameters, subject, { apiKeyId: subject.keyId, model });
  const start = parameters.add(firstIdAt(range.startMs), 'uuid');
  const end = parameters.add(firstIdAt(range.endMs), 'uuid');
  return `${where} and id >= ${start} and id < ${end}`;
}

/** A prepared statement's name must stand for one text, and a member's has one more condition. */
const variant = ({ userId }: Subject): string => (userId === null ? '' : '-of-user');
