import { IsolationLevel } from '@mikro-orm/postgresql';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { PageById } from '#shared/db/pages-by-id.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { firstIdAt } from '#shared/ids.ts';
import type { PageRows } from '#shared/page.ts';
import { startsBetween, tiers, weekMs } from '../domain/parts.ts';
import type { Subject } from '../domain/subject.ts';
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
};

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
    const around = await aroundPage(client, { ...query, startMs, endMs, limit });
    return { rows: await listEvents(client, { ...query, ...around, limit }), total };
  };
  return sqlTransaction(database, page, { isolationLevel: IsolationLevel.REPEATABLE_READ });
}

/** Events, newest first. */
export async function listEvents(
  client: Sql,
  query: EventQuery & { startMs: number; endMs: number; limit: number; offset: number },
): Promise<EventRow[]> {
  const parameters = new Parameters();
  const where = listed(parameters, query);
  const limit = parameters.add(query.limit, 'bigint');
  const offset = parameters.add(query.offset, 'bigint');
  const { rows } = await client.query<EventRow>({
    text: `select * from events where ${where} order by id desc limit ${limit} offset ${offset}`,
    values: parameters.values,
  });
  return rows;
}

/** A page of what was called under a request id, whatever the organization, newest first, and how much it is in all. */
export async function pageOfRequest(
  database: Pick<ServiceDatabase, 'query'>,
  requestId: string,
  { limit, offset }: Pick<PageRows, 'limit' | 'offset'>,
): Promise<{ rows: EventRow[]; total: number }> {
  const [listed, counted] = await Promise.all([
    database.query<EventRow>({
      text: 'select * from events where request_id = $1 order by id desc limit $2 offset $3',
      values: [requestId, limit, offset],
    }),
    database.query<{ total: string }>({
      text: 'select count(*) as total from events where request_id = $1',
      values: [requestId],
    }),
  ]);
  return { rows: listed.rows, total: Number(counted.rows[0]!.total) };
}

/** The conditions on listed events. */
function listed(parameters: Parameters, query: EventQuery & { startMs: number; endMs: number }): string {
  const conditions = [narrowing(parameters, query.subject, query.filter)];
  if (query.success !== undefined) conditions.push(`success = ${parameters.add(query.success, 'boolean')}`);
  if (query.requestId) conditions.push(`request_id = ${parameters.add(query.requestId, 'text')}`);
  conditions.push(`id >= ${parameters.add(firstIdAt(query.startMs), 'uuid')}`);
  conditions.push(`id < ${parameters.add(firstIdAt(query.endMs), 'uuid')}`);
  return conditions.join(' and ');
}

/** A UTC midnight after all events. */
const farFutureMs = Date.UTC(9_999, 0, 1);

/**
 * The number of events, and a range, to the week, outside which there are none. The roll-ups have both without reading events, as ranges
 * consist of whole days; what was called under a request id they do not know, but it is little.
 */
async function countEvents(client: Sql, query: EventQuery): Promise<{ total: number; startMs: number; endMs: number }> {
  const parameters = new Parameters();
  const startMs = Math.max(query.startMs ?? 0, await keptFromMs(client));
  const endMs = Math.max(startMs, query.endMs ?? farFutureMs);
  if (query.requestId) {
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

/** The most buckets whose sums are read to skip some. */
const bucketsMax = 1_000;

/**
 * The part of a range in which a page lies, and its offset there: the weeks, days and quarter hours around it are left out by their sums. To
 * read past a million events, which a filter may pick from many more, would take longer than a statement may.
 */
async function aroundPage(
  client: Sql,
  query: EventQuery & { startMs: number; endMs: number; limit: number; offset: number },
): Promise<{ startMs: number; endMs: number; offset: number }> {
  const { subject, filter, success, limit } = query;
  let { startMs, endMs, offset } = query;
  if (query.requestId || offset <= readPastMax) return { startMs, endMs, offset };
  for (const tier of tiers.toReversed()) {
    if ((endMs - startMs) / tier.widthMs > bucketsMax) break;
    const startsMs = [startMs, ...startsBetween(startMs, endMs, tier)];
    const sums = await bucketedSums(client, { subject, filter, startsMs, endMs });
    /** How many events lie after the bucket, and how many after the page's end of time. */
    let later = 0;
    let skipped = 0;
    for (const { bucket, requests, successful_requests: succeeded } of sums.sort((a, b) => b.bucket - a.bucket)) {
      const count = Number(success === undefined ? requests : success ? succeeded : requests - succeeded);
      startMs = startsMs[bucket]!;
      if (later + count <= offset) {
        endMs = startMs;
        skipped = later + count;
      } else if (later + count >= offset + limit) {
        break;
      }
      later += count;
    }
    offset -= skipped;
  }
  return { startMs, endMs, offset };
}

/** The start of the oldest month whose events are kept; roll-ups are kept for longer. */
async function keptFromMs(client: Sql): Promise<number> {
  const { rows } = await client.query<{ kept_from: string }>({
    name: 'kept-from',
    text: 'select kept_from from events_retention',
  });
  return Date.parse(rows[0]!.kept_from);
}

/** The next events of a range after `afterId`, oldest first: a page of an export, which keeps no transaction open. */
export async function nextEvents(
  database: Pick<ServiceDatabase, 'query'>,
  query: Pick<EventQuery, 'subject' | 'filter'> & PageById,
): Promise<EventRow[]> {
  const parameters = new Parameters();
  const where = narrowing(parameters, query.subject, query.filter);
  const after = parameters.add(query.afterId, 'uuid');
  const end = parameters.add(query.endId, 'uuid');
  const limit = parameters.add(query.limit, 'bigint');
  const { rows } = await database.query<EventRow>({
    text: `select * from events where ${where} and id > ${after} and id < ${end} order by id limit ${limit}`,
    values: parameters.values,
  });
  return rows;
}
