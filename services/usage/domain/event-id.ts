/*
 * An event's id is a UUIDv7 (RFC 9562 section 5.7), and the time in it is that of the event. Ids sort as their times do, so a range of time
 * is a range of ids.
 */

const uuidv7Pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;

export const isUuidv7 = (text: string): boolean => uuidv7Pattern.test(text);

/** The largest UUID of all. */
export const lastId = 'ffffffff-ffff-ffff-ffff-ffffffffffff';
