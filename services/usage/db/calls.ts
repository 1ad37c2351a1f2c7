import { IsolationLevel } from '@mikro-orm/postgresql';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { firstIdAt, uuidv7Ms } from '#shared/ids.ts';
import { quarterHourMs } from '../domain/parts.ts';
import type { InstantRange } from '../domain/time-buckets.ts';
import { arrayOf } from './binary.ts';
import type { EventRow } from './event-rows.ts';
import { keptFromMs, rangesOfPage } from './history.ts';
import { type Filter, narrowing, Parameters } from './narrowing.ts';

/** What calls of any organization are narrowed to; empty fields do not. */
export type CallFilter = Filter & {
  tenantId: string;
  deploymentId: string;
  /** Only calls that succeeded, or only those that failed. */
  success?: boolean | undefined;
};

type Page = { limit: number; offset: number };
type PageOfCalls = { rows: EventRow[]; total: number };

/**
 * A page of the calls in a range, newest first, and how many there are. No index leads to the calls of all organizations, which would cost each
 * of them: the roll-ups of quarter hours tell how many there were and when, and which organizations made them.
 */
export function pageOfCalls(
  database: Pick<ServiceDatabase, 'pool'>,
  query: Page & { filter: CallFilter; range: InstantRange },
): Promise<PageOfCalls> {
  const page = async (client: Sql): Promise<PageOfCalls> => {
    const startMs = Math.max(query.range.startMs, await keptFromMs(client));
    const counted = await countCalls(client, { ...query, range: { ...query.range, startMs } });
    const total = counted.reduce((sum, { calls }) => sum + calls, 0);
    const { ranges, offset } = rangesOfPage(counted, query);
    if (ranges.length === 0) return { rows: [], total };
    const parameters = new Parameters();
    const where = callConditions(parameters, query.filter);
    const [limit, skipped] = [parameters.add(query.limit, 'bigint'), parameters.add(offset, 'bigint')];
    const { rows } = await client.query<EventRow>({
      text: `select calls.* from ${used(parameters, query.filter, ranges)} cross join lateral (
          select * from events where tenant_id = used.tenant_id and id >= first_id and id < end_id and ${where}
          order by id desc limit ${skipped} + ${limit}) as calls
        order by id desc limit ${limit} offset ${skipped}`,
      values: parameters.values,
    });
    return { rows, total };
  };
  return sqlTransaction(database, page, { isolationLevel: IsolationLevel.REPEATABLE_READ });
}

/** How many calls there were in the quarter hours of a range, newest first. */
async function countCalls(
  client: Sql,
  { filter, range }: { filter: CallFilter; range: InstantRange },
): Promise<(InstantRange & { calls: number })[]> {
  const parameters = new Parameters();
  let text: string;
  if (filter.deploymentId === '') {
    text = `select bucket_start, sum(${rolledUpCalls(filter)})::bigint as calls from rollups
      where ${rolledUpConditions(parameters, filter)}
        and bucket_start >= ${parameters.add(new Date(range.startMs), 'timestamptz')}
        and bucket_start < ${parameters.add(new Date(range.endMs), 'timestamptz')}
      group by bucket_start order by bucket_start desc`;
  } else {
    // Roll-ups do not know it, so that its calls are counted themselves: those that failed have an index.
    const where = callConditions(parameters, filter);
    text = `select bucket_start, sum(calls)::bigint as calls
      from ${used(parameters, filter, quarterHoursOf(range))} cross join lateral (
        select count(*) as calls from events
        where tenant_id = used.tenant_id and id >= first_id and id < end_id and ${where}) as calls
      group by bucket_start order by bucket_start desc`;
  }
  const { rows } = await client.query<{ bucket_start: Date; calls: bigint }>({ text, values: parameters.values });
  return rows.map(({ bucket_start, calls }) => {
    const startMs = bucket_start.getTime();
    return { startMs, endMs: startMs + quarterHourMs, calls: Number(calls) };
  });
}

/** The organizations with such calls in some quarter hours, each with the ids between which their events are. */
function used(parameters: Parameters, filter: CallFilter, quarterHours: readonly InstantRange[]): string {
  const starts = arrayOf('timestamptz', quarterHours, ({ startMs }) => startMs);
  const ids = (end: keyof InstantRange) =>
    parameters.add(
      quarterHours.map((quarterHour) => firstIdAt(quarterHour[end])),
      'uuid[]',
    );
  return `(select distinct bucket_start, tenant_id, first_id, end_id
    from unnest(${parameters.add(starts, 'timestamptz[]')}, ${ids('startMs')}, ${ids('endMs')}) as range (start, first_id, end_id)
      join rollups on bucket_start = start
    where ${rolledUpConditions(parameters, filter)} and ${rolledUpCalls(filter)} > 0) as used`;
}

/** What a row of the roll-ups has of such calls, as far as it knows. */
const rolledUpCalls = ({ success }: CallFilter): string =>
  success === undefined ? 'requests' : success ? 'successful_requests' : '(requests - successful_requests)';

const rolledUpConditions = (parameters: Parameters, { tenantId, ...filter }: CallFilter): string =>
  narrowing(parameters, tenantId === '' ? null : { tenantId, userId: null }, filter);

function callConditions(parameters: Parameters, filter: CallFilter): string {
  const conditions = [rolledUpConditions(parameters, filter)];
  if (filter.deploymentId !== '') conditions.push(`deployment_id = ${parameters.add(filter.deploymentId, 'uuid')}`);
  if (filter.success !== undefined) conditions.push(`success = ${parameters.add(filter.success, 'boolean')}`);
  return conditions.join(' and ');
}

const quarterHoursOf = ({ startMs, endMs }: InstantRange): InstantRange[] =>
  Array.from({ length: Math.ceil((endMs - startMs) / quarterHourMs) }, (_, index) => {
    const start = startMs + index * quarterHourMs;
    return { startMs: start, endMs: start + quarterHourMs };
  });

/** A page of what was called under a request id, or of the one call with an id, newest first, and how much it is in all. */
export async function lookUpCalls(
  database: Pick<ServiceDatabase, 'query'>,
  {
    requestId,
    eventId,
    filter,
    startMs,
    endMs,
    limit,
    offset,
  }: Page & { requestId: string; eventId: string; filter: CallFilter; startMs: number | null; endMs: number | null },
): Promise<PageOfCalls> {
  const parameters = new Parameters();
  const conditions = [callConditions(parameters, filter)];
  if (startMs !== null) conditions.push(`id >= ${parameters.add(firstIdAt(startMs), 'uuid')}`);
  if (endMs !== null) conditions.push(`id < ${parameters.add(firstIdAt(endMs), 'uuid')}`);
  if (requestId !== '') conditions.push(`request_id = ${parameters.add(requestId, 'text')}`);
  if (eventId !== '') {
    // Its id tells the quarter hour in which its organization is one of those with calls.
    const start = Math.floor(uuidv7Ms(eventId) / quarterHourMs) * quarterHourMs;
    conditions.push(`id = ${parameters.add(eventId, 'uuid')} and tenant_id in (
      select tenant_id from rollups where bucket_start = ${parameters.add(new Date(start), 'timestamptz')})`);
  }
  const where = conditions.join(' and ');
  const counting = { text: `select count(*) as total from events where ${where}`, values: [...parameters.values] };
  const page = `limit ${parameters.add(limit, 'bigint')} offset ${parameters.add(offset, 'bigint')}`;
  const [listed, counted] = await Promise.all([
    database.query<EventRow>({
      text: `select * from events where ${where} order by id desc ${page}`,
      values: parameters.values,
    }),
    database.query<{ total: bigint }>(counting),
  ]);
  return { rows: listed.rows, total: Number(counted.rows[0]!.total) };
}
