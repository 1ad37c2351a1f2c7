/*
 * An event's id is a UUIDv7 (RFC 9562 section 5.7), and the moment of the event is the time inside it. Ids sort as their times
 * do, so a range of time is a range of ids.
 */

const uuidv7Pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;

export const isUuidv7 = (text: string): boolean => uuidv7Pattern.test(text);

/** The largest time that fits into the 48 bits of a UUIDv7, in milliseconds. */
const msMax = 2 ** 48 - 1;

/** The smallest UUID whose time is not before `ms`: the inclusive start, or the exclusive end, of a range of ids. */
export function firstIdAt(ms: number): string {
  const hex = Math.min(Math.max(Math.ceil(ms), 0), msMax)
    .toString(16)
    .padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}

/** The largest UUID of all. */
export const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
