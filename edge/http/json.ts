import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import { Type } from 'typebox';
import type { PageInfo } from '#gen/modelgateway/common/v1/pagination_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { readIsoTime } from '#shared/iso-time.ts';
import { type NanoUsd, usdJson } from '#shared/money.ts';

/** A time as it stands in JSON under /api/v1: ISO 8601, UTC, `Z` (decisions.md, Common); null when unset. */
export const isoTime = (time: Timestamp | undefined): string | null =>
  time === undefined ? null : timestampDate(time).toISOString();

/** A time in a request, which `parseTime` reads. */
export const timeSchema = Type.String({ maxLength: 64 });

/** Reads an ISO 8601 time with its zone, or a date, which means 00:00 UTC of that day. */
export function parseTime(text: string, param: string): Timestamp {
  const time = readIsoTime(text);
  if (time === undefined) {
    throw invalidRequest(
      param,
      `Invalid value for \`${param}\`: expected an ISO 8601 time such as 2030-01-31T12:00:00Z, or a date.`,
      'invalid_value',
    );
  }
  return time;
}

/** The same of a time that may be absent or null. */
export const parseTimeIfGiven = (text: string | null | undefined, param: string): Timestamp | undefined =>
  text == null ? undefined : parseTime(text, param);

export const usdOrNull = (nanoUsd: NanoUsd | undefined): unknown => (nanoUsd === undefined ? null : usdJson(nanoUsd));

/** The pagination object of service.md. */
export const paginationJson = (page: Omit<PageInfo, '$typeName' | '$unknown'> | undefined) => ({
  page: page?.page ?? 1,
  limit: page?.limit ?? 0,
  total: Number(page?.total ?? 0n),
  total_pages: page?.totalPages ?? 0,
  has_next: page?.hasNext ?? false,
  has_prev: page?.hasPrev ?? false,
});
