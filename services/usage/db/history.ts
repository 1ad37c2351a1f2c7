import { IsolationLevel } from '@mikro-orm/postgresql';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { PageById } from '#shared/db/pages-by-id.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { firstIdAt } from '#shared/ids.ts';
import { quarterHourMs, startsBetween, tiers, weekMs } from '../domain/parts.ts';
import type { Subject } from '../domain/subject.ts';
import type { InstantRange } from '../domain/time-buckets.ts';
import { arrayOf } from './binary.ts';
import { bucketedSums } from './bucketed-sums.ts';
import type { EventRow } from './event-rows.ts';
import { type Filter, narrowing, Parameters } from './narrowing.ts';
import { inBuckets, rolledUp } from './rolled-up.ts';

type EventQuery = {
  subject: Subject;
  filter: Filter | undefined;
  /** The bounds of the range; null where it is open. */
  startMs: number | null;
  endMs: number | null;
  /** Only calls that succeeded, or only those that failed; all if undefined. */
  success: boolean | undefined;
  /** Only what was called under it; all if missing or empty. */
  requestId?: string;
  /** Only the call that it is; all if missing or empty. */
  eventId?: string;
};

/** Whether what is asked for is found by an id, and so is little: the roll-ups do not know it. */
const isLookUp = ({ requestId, eventId }: EventQuery): boolean => Boolean(requestId || eventId);

/** A page of events, newest first, and how many there are in all, on one snapshot: newer events push none off the page. */
export function pageOfEvents(
  database: Pick<ServiceDatabase, 'pool'>,
  query: EventQuery & { limit: number; offset: number },
): Promise<{ rows: EventRow[]; total: number }> {
  const page = async (client: Sql) => {
    const { total, startMs, endMs } = await countEvents(client, query);
    // No more than there are: those of a rare model are searched for no longer than until the last one is found.
    const limit = Math.min(query.limit, total - query.offset);
    if (limit <= 0) return { rows: [], total };
    const place = await placeOfPage(client, { ...query, startMs, endMs, limit });
    return { rows: await listEvents(client, { ...query, ...place, limit }), total };
  };
  return sqlTransaction(database, page, { isolationLevel: IsolationLevel.REPEATABLE_READ });
}

/** Events of some ranges, newest first, as the ranges are. */
export async function listEvents(
  client: Sql,
  query: EventQuery & { ranges: readonly InstantRange[]; limit: number; offset: number },
): Promise<EventRow[]> {
  const { ranges } = query;
  const parameters = new Parameters();
  const where = listed(parameters, { ...query, startMs: ranges.at(-1)!.startMs, endMs: ranges[0]!.endMs });
  const limit = parameters.add(query.limit, 'bigint');
  const offset = parameters.add(query.offset, 'bigint');
  const events = eventsIn(ranges, parameters, where, `order by id desc limit ${offset} + ${limit}`);
  const { rows } = await client.query<EventRow>({
    text: `select events.* from ${events} order by id desc limit ${limit} offset ${offset}`,
    values: parameters.values,
  });
  return rows;
}

/** The events of some ranges that meet a condition, to be selected from: of each range the `first` alone, as it may have far more. */
function eventsIn(ranges: readonly InstantRange[], parameters: Parameters, where: string, first: string): string {
  if (ranges.length === 1) return `events where ${where}`;
  const ids = (end: keyof InstantRange) =>
    parameters.add(
      ranges.map((range) => firstIdAt(range[end])),
      'uuid[]',
    );
  return `unnest(${ids('startMs')}, ${ids('endMs')}) as range (first_id, end_id) cross join lateral (
    select * from events where ${where} and id >= first_id and id < end_id ${first}) as events`;
}

/** The conditions on listed events. */
function listed(parameters: Parameters, query: EventQuery & InstantRange): string {
  const conditions = [narrowing(parameters, query.subject, query.filter)];
  if (query.success !== undefined) conditions.push(`success = ${parameters.add(query.success, 'boolean')}`);
  if (query.requestId) conditions.push(`request_id = ${parameters.add(query.requestId, 'text')}`);
  if (query.eventId) conditions.push(`id = ${parameters.add(query.eventId, 'uuid')}`);
  conditions.push(`id >= ${parameters.add(firstIdAt(query.startMs), 'uuid')}`);
  conditions.push(`id < ${parameters.add(firstIdAt(query.endMs), 'uuid')}`);
  return conditions.join(' and ');
}

/** A UTC midnight after all events. */
const farFutureMs = Date.UTC(9_999, 0, 1);

/**
 * The number of events, and a range, to the week, outside which there are none. The roll-ups have both without reading events, as ranges
 * consist of whole days.
 */
async function countEvents(client: Sql, query: EventQuery): Promise<{ total: number; startMs: number; endMs: number }> {
  const parameters = new Parameters();
  const startMs = Math.max(query.startMs ?? 0, await keptFromMs(client));
  const endMs = Math.max(startMs, query.endMs ?? farFutureMs);
  if (isLookUp(query)) {
    const text = `select count(*) as total from events where ${listed(parameters, { ...query, startMs, endMs })}`;
    const { rows } = await client.query<{ total: string }>({ text, values: parameters.values });
    return { total: Number(rows[0]!.total), startMs, endMs };
  }
  const where = narrowing(parameters, query.subject, query.filter);
  const all = query.success === undefined;
  const counted = all ? 'requests' : query.success ? 'successful_requests' : 'requests - successful_requests';
  const { text, parts } = rolledUp(parameters, {
    where,
    cutsMs: [startMs, endMs],
    columns: [],
    measures: all ? ['requests'] : ['requests', 'successful_requests'],
    sums: `coalesce(sum(${counted}), 0)::bigint as requests, min(bucket_start) as first, max(bucket_start) as last`,
  });
  const { rows } = await client.query<{ part: number; requests: bigint; first: Date | null; last: Date | null }>({
    text,
    values: parameters.values,
  });
  let total = 0n;
  for (const { row, sign } of inBuckets(rows, parts)) total += sign * row.requests;
  const times = (read: (row: (typeof rows)[number]) => Date | null) =>
    rows.flatMap((row) => read(row)?.getTime() ?? []);
  return {
    total: Number(total),
    startMs: Math.max(startMs, Math.min(...times(({ first }) => first))),
    // The longest roll-ups are those of weeks.
    endMs: Math.min(endMs, Math.max(...times(({ last }) => last)) + weekMs),
  };
}

/** How far in pages are found by reading past the events before them, which is cheaper than to ask for sums. */
const readPastMax = 500;

const [, ...coarserTiers] = tiers;

/** Whether a filter picks events from among others; otherwise they are next to each other in an index. */
const isPicked = (filter: Filter | undefined): boolean => Boolean(filter?.model || filter?.endpoint);

/**
 * The parts of a range in which a page lies, newest first, and its offset there. By their sums, weeks, days and quarter hours are left out that
 * come before it, or have nothing for it: to read past a million events, which a filter may pick from many more, would take longer than a
 * statement may.
 */
async function placeOfPage(
  client: Sql,
  query: EventQuery & InstantRange & { limit: number; offset: number },
): Promise<{ ranges: readonly InstantRange[]; offset: number }> {
  const { subject, filter, success, startMs, endMs, limit } = query;
  let { offset } = query;
  let ranges: InstantRange[] = [{ startMs, endMs }];
  if (isLookUp(query) || (offset <= readPastMax && !isPicked(filter))) return { ranges, offset };
  /** Of some buckets, newest first, keeps those of the page. */
  const keep = (buckets: readonly (InstantRange & Counts)[]): void => {
    const counted = buckets.map(({ startMs, endMs, requests, successful_requests: succeeded }) => ({
      startMs,
      endMs,
      calls: Number(success === undefined ? requests : success ? succeeded : requests - succeeded),
    }));
    ({ ranges, offset } = rangesOfPage(counted, { limit, offset }));
  };
  for (const tier of coarserTiers.toReversed()) {
    const [{ startMs }, { endMs }] = [ranges.at(-1)!, ranges[0]!];
    const startsMs = [startMs, ...startsBetween(startMs, endMs, tier)];
    const sums = await bucketedSums(client, { subject, filter, startsMs, endMs });
    sums.sort((a, b) => b.bucket - a.bucket);
    keep(sums.map((sum) => ({ ...sum, startMs: startsMs[sum.bucket]!, endMs: startsMs[sum.bucket + 1] ?? endMs })));
  }
  keep(await quarterHours(client, { subject, filter, ranges }));
  return { ranges, offset };
}

/** The ranges, of some newest first, in which a page of all their calls lies, and its offset there. */
export function rangesOfPage(
  counted: readonly (InstantRange & { calls: number })[],
  { limit, offset }: { limit: number; offset: number },
): { ranges: InstantRange[]; offset: number } {
  const ranges: InstantRange[] = [];
  let later = 0;
  let skipped = 0;
  for (const { startMs, endMs, calls } of counted) {
    if (calls === 0) continue;
    later += calls;
    if (later <= offset) skipped = later;
    else ranges.push({ startMs, endMs });
    if (later >= offset + limit) break;
  }
  return { ranges, offset: offset - skipped };
}

type Counts = { requests: bigint; successful_requests: bigint };

/**
 * The parts of a range in which events are to be looked for, oldest first: to the quarter hour where they are picked from among others. Those
 * in which there are at most `eventsMax` are to be read together.
 */
export async function rangesToRead(
  database: Pick<ServiceDatabase, 'query'>,
  query: Pick<EventQuery, 'subject' | 'filter'> & { range: InstantRange; eventsMax: number },
): Promise<InstantRange[][]> {
  const { subject, filter, range, eventsMax } = query;
  if (!isPicked(filter)) return [[range]];
  const groups: { ranges: InstantRange[]; events: number }[] = [];
  for (const quarterHour of (await quarterHours(database, { subject, filter, ranges: [range] })).reverse()) {
    const { startMs, endMs } = quarterHour;
    const events = Number(quarterHour.requests);
    const group = groups.at(-1);
    const last = group?.ranges.at(-1);
    const follows = last?.endMs === startMs;
    if (group === undefined || (group.events + events > eventsMax && !(follows && group.ranges.length === 1))) {
      groups.push({ ranges: [{ startMs, endMs }], events });
      continue;
    }
    group.events += events;
    if (follows) last.endMs = endMs;
    else group.ranges.push({ startMs, endMs });
  }
  return groups.map(({ ranges }) => ranges);
}

/** The quarter hours of some ranges that have events, newest first. */
async function quarterHours(
  database: Pick<ServiceDatabase, 'query'>,
  { subject, filter, ranges }: Pick<EventQuery, 'subject' | 'filter'> & { ranges: readonly InstantRange[] },
): Promise<(InstantRange & Counts)[]> {
  const parameters = new Parameters();
  const where = narrowing(parameters, subject, filter);
  const times = (end: keyof InstantRange) =>
    parameters.add(
      arrayOf('timestamptz', ranges, (range) => range[end]),
      'timestamptz[]',
    );
  const { rows } = await database.query<Counts & { bucket_start: Date }>({
    text: `select bucket_start, sum(requests)::bigint as requests, sum(successful_requests)::bigint as successful_requests
      from unnest(${times('startMs')}, ${times('endMs')}) as range (from_time, to_time) cross join lateral (
        select bucket_start, requests, successful_requests from rollups
        where ${where} and bucket_start >= from_time and bucket_start < to_time offset 0) as rows
      group by bucket_start order by bucket_start desc`,
    values: parameters.values,
  });
  return rows.map(({ bucket_start, ...counts }) => {
    const startMs = bucket_start.getTime();
    return { ...counts, startMs, endMs: startMs + quarterHourMs };
  });
}

/** The start of the oldest month whose events are kept; roll-ups are kept for longer. */
export async function keptFromMs(client: Sql): Promise<number> {
  const { rows } = await client.query<{ kept_from: string }>({
    name: 'kept-from',
    text: 'select kept_from from events_retention',
  });
  return Date.parse(rows[0]!.kept_from);
}

/** The next events of some ranges after `afterId`, oldest first: a page of an export, which keeps no transaction open. */
export async function nextEvents(
  database: Pick<ServiceDatabase, 'query'>,
  query: Pick<EventQuery, 'subject' | 'filter'> & PageById & { ranges: readonly InstantRange[] },
): Promise<EventRow[]> {
  const parameters = new Parameters();
  const conditions = [
    narrowing(parameters, query.subject, query.filter),
    `id > ${parameters.add(query.afterId, 'uuid')}`,
    `id < ${parameters.add(query.endId, 'uuid')}`,
  ];
  const first = `order by id limit ${parameters.add(query.limit, 'bigint')}`;
  const { rows } = await database.query<EventRow>({
    text: `select events.* from ${eventsIn(query.ranges, parameters, conditions.join(' and '), first)} ${first}`,
    values: parameters.values,
  });
  return rows;
}
