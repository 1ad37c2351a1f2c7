import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { type Static, type TSchema, Type } from 'typebox';
import { invalidValue } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import { readIsoTime } from '#shared/iso-time.ts';
import { type NanoUsd, usdJson } from '#shared/money.ts';
import { type PlainPageInfo, pageInfo, pageRows } from '#shared/page.ts';

/** The id of something. */
export const idSchema = Type.String({ format: 'uuid' });

/**
 * The id to which a query narrows its answer. An empty one is refused, since it would narrow nothing: a script with an unset variable meant
 * something else.
 */
export const idFilter = (description?: string) =>
  Type.Optional(Type.String({ format: 'uuid', minLength: 1, description }));

/**
 * An id in a query or body. Services check ids too; this is for those that they know by another name than the client. @throws INVALID_REQUEST
 */
export function readId(text: string, param: string): string {
  if (isUuid(text)) return text;
  throw invalidValue(param, 'it must be a valid UUID');
}

/** The name, or the id that is no UUID, to which a query narrows its answer; not empty, as for `idFilter`. */
export const nameFilter = (description?: string) =>
  Type.Optional(Type.String({ minLength: 1, maxLength: 255, description }));

/** Query parameters of every list (decisions.md, Common). */
export const pageQuerySchema = {
  page: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000, description: 'Starts at 1, the default.' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: 'Items per page; 20 by default.' })),
};

/** A time as it stands in JSON under /api/v1: ISO 8601, UTC, `Z` (decisions.md, Common). */
export const isoTimeSchema = Type.String({ format: 'date-time' });

/** A message's time in the form of `isoTimeSchema`; null when unset. */
export function isoTime(time: Timestamp): string;
export function isoTime(time: Timestamp | undefined): string | null;
export function isoTime(time: Timestamp | undefined): string | null {
  return time === undefined ? null : timestampDate(time).toISOString();
}

/** An amount in USD with its exact decimals, as `usdJson` writes it. */
export const usdSchema = Type.Number();

/** An answer without a body. */
export const noBody = (description: string) => Type.Unsafe<undefined>(Type.Null({ description }));

/** A time in a request, which `parseTime` reads. */
export const timeSchema = Type.String({
  maxLength: 64,
  description: 'An ISO 8601 time with a time zone, or a date, which means 00:00 UTC on that day.',
});

/** Reads an ISO 8601 time with its zone, or a date, which means 00:00 UTC of that day. */
export function parseTime(text: string, param: string): Timestamp {
  const time = readIsoTime(text);
  if (time !== undefined) return time;
  throw invalidValue(param, 'expected an ISO 8601 time such as 2030-01-31T12:00:00Z, or a date');
}

/** Reads a time as `parseTime` does; undefined when it is absent or null. */
export const parseTimeIfGiven = (text: string | null | undefined, param: string): Timestamp | undefined =>
  text == null ? undefined : parseTime(text, param);

export const usdOrNull = (nanoUsd: NanoUsd | undefined): number | null =>
  nanoUsd === undefined ? null : usdJson(nanoUsd);

/** The pagination object of service.md. */
export const paginationSchema = Type.Object(
  {
    page: Type.Integer(),
    limit: Type.Integer(),
    total: Type.Integer(),
    total_pages: Type.Integer(),
    has_next: Type.Boolean(),
    has_prev: Type.Boolean(),
  },
  { $id: 'Pagination' },
);
export const paginationJson = (page: PlainPageInfo | undefined): Static<typeof paginationSchema> => ({
  page: page?.page ?? 1,
  limit: page?.limit ?? 0,
  total: Number(page?.total ?? 0n),
  total_pages: page?.totalPages ?? 0,
  has_next: page?.hasNext ?? false,
  has_prev: page?.hasPrev ?? false,
});

/** A page of a list. */
export const pageOf = <Item extends TSchema>(item: Item) =>
  Type.Object({ data: Type.Array(item), pagination: paginationSchema });

/** A page of a list that is in memory as a whole; only the page is turned into JSON. */
export function pageOfItems<Item, Json>(
  items: readonly Item[],
  json: (item: Item) => Json,
  asked: { page?: number; limit?: number },
) {
  const rows = pageRows(asked);
  return {
    data: items.slice(rows.offset, rows.offset + rows.limit).map((item) => json(item)),
    pagination: paginationJson(pageInfo(rows, items.length)),
  };
}
