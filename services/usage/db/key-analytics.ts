import type { ServiceDatabase } from '#shared/db/orm.ts';
import { firstIdAt } from '../domain/event-id.ts';
import type { Subject } from '../domain/subject.ts';
import type { InstantRange } from '../domain/time-buckets.ts';
import type { Volume } from '../domain/volume.ts';
import type { EventRow } from './event-rows.ts';
import { narrowing, Parameters } from './narrowing.ts';

type Database = Pick<ServiceDatabase, 'query'>;

/**
 * One key of one organization, and for a member only while it is theirs: events and roll-ups carry both, so that no key
 * is looked up, and an unknown one takes the same way as any other.
 */
export type KeySubject = Subject & { keyId: string };

/** The volume of one model in one bucket; buckets are counted from 0, and -1 is the time before the first. */
export type VolumeRow = Volume & { bucket: number; model: string };

/** A key's volume from `fromMs` on, by bucket and model. */
export async function volumesOfKey(
  database: Database,
  query: { subject: KeySubject; fromMs: number; startsMs: readonly number[]; endMs: number },
): Promise<VolumeRow[]> {
  const { subject, fromMs, startsMs, endMs } = query;
  const parameters = new Parameters();
  const where = narrowing(parameters, subject, { apiKeyId: subject.keyId });
  const starts = parameters.add(startsMs.map(isoTime), 'timestamptz[]');
  const from = parameters.add(isoTime(fromMs), 'timestamptz');
  const end = parameters.add(isoTime(endMs), 'timestamptz');
  const { rows } = await database.query<VolumeRow>({
    text: `select width_bucket(bucket_start, ${starts}) - 1 as bucket, model,
        sum(requests)::bigint as requests, sum(successful_requests)::bigint as "successfulRequests",
        sum(input_tokens)::bigint as "inputTokens", sum(output_tokens)::bigint as "outputTokens",
        sum(cached_input_tokens)::bigint as "cachedInputTokens", sum(cache_hits)::bigint as "cacheHits",
        sum(cache_misses)::bigint as "cacheMisses", sum(generating_ms)::bigint as "generatingMs"
      from rollups where ${where} and bucket_start >= ${from} and bucket_start < ${end}
      group by 1, 2`,
    values: parameters.values,
  });
  return rows;
}

/** Percentiles of the latency of a key's successful calls, each a latency that occurred; null without any. */
export async function latenciesOfKey(
  database: Database,
  query: { subject: KeySubject; range: InstantRange; model: string },
): Promise<{ p50Ms: number; p95Ms: number } | null> {
  const parameters = new Parameters();
  const where = eventsOfKey(parameters, query.subject, query.range, query.model);
  const { rows } = await database.query<{ latencies: bigint[] | null }>({
    text: `select percentile_disc(array[0.5, 0.95]) within group (order by latency_ms) as latencies
      from events where ${where} and success`,
    values: parameters.values,
  });
  const latencies = rows[0]?.latencies ?? null;
  return latencies === null ? null : { p50Ms: Number(latencies[0]), p95Ms: Number(latencies[1]) };
}

/** A key's latest events of a range, newest first. */
export async function latestEventsOfKey(
  database: Database,
  query: { subject: KeySubject; range: InstantRange; limit: number },
): Promise<EventRow[]> {
  const parameters = new Parameters();
  const where = eventsOfKey(parameters, query.subject, query.range, '');
  const { rows } = await database.query<EventRow>({
    text: `select * from events where ${where} order by id desc limit ${parameters.add(query.limit, 'bigint')}`,
    values: parameters.values,
  });
  return rows;
}

function eventsOfKey(parameters: Parameters, subject: KeySubject, range: InstantRange, model: string): string {
  const where = narrowing(parameters, subject, { apiKeyId: subject.keyId, model });
  const start = parameters.add(firstIdAt(range.startMs), 'uuid');
  const end = parameters.add(firstIdAt(range.endMs), 'uuid');
  return `${where} and id >= ${start} and id < ${end}`;
}

const isoTime = (ms: number): string => new Date(ms).toISOString();
