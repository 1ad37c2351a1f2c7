import { createHash, randomBytes } from 'node:crypto';
import { v7 } from 'uuid';

const idBytes = 16;
/** Random bytes for 256 ids: drawing them one id at a time costs more than everything else. */
let random = randomBytes(0);
let randomUsed = 0;

/** The position of the next 16 random bytes in `random`. */
function takeRandom(): number {
  if (randomUsed === random.length) {
    random = randomBytes(256 * idBytes);
    randomUsed = 0;
  }
  randomUsed += idBytes;
  return randomUsed - idBytes;
}

/** The id that is being made. */
const bytes = Buffer.alloc(idBytes);
let lastMs = 0;
let sequence = 0;

/** If the clock is set back by at most this, ids keep counting from the moment they had reached, until it catches up. */
const setBackMsMax = 10_000;

/**
 * A new UUIDv7 (RFC 9562 section 5.7). It sorts after all earlier ones of this process, unless the machine's clock was set back by more
 * than ten seconds: continuing would then misdate events for as long (section 6.2 leaves it open). Ids of rows and events are v7, so
 * indexes grow at their end and an event's partition can be read from its id.
 */
export const uuidv7 = (): string => uuidOfHex(uuidv7Hex());

/** A new UUIDv7 without dashes. */
function uuidv7Hex(): string {
  const start = takeRandom();
  random.copy(bytes, 0, start, start + idBytes);
  const nowMs = Date.now();
  if (nowMs > lastMs || nowMs < lastMs - setBackMsMax) {
    lastMs = nowMs;
    // The upper half of the range is left for counting up.
    sequence = bytes.readUInt32BE(0) >>> 1;
  } else if (++sequence > 0xffff_ffff) {
    lastMs += 1;
    sequence = 0;
  }
  // Written into the drawn bytes and converted to text in one go: the package's own conversion costs as much as the rest of a call's ids.
  return v7({ random: bytes, msecs: lastMs, seq: sequence }, bytes).toString('hex');
}

/** The UUID with these 32 hexadecimal digits. */
export const uuidOfHex = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;

/**
 * The request_id of a movement of money, derived from an Idempotency-Key and the user who gave it (empty for the operators' command line): a
 * repeat is then the same request, and another movement with the same key is refused.
 */
export const requestIdFor = (userId: string, idempotencyKey: string): string =>
  uuidOfHex(
    createHash('sha256')
      .update(JSON.stringify([userId, idempotencyKey]))
      .digest('hex')
      .slice(0, 32),
  );

/**
 * A new UUIDv7 that sorts after `last`, which may come from a process whose clock is ahead: then it increments that one's random bits (RFC
 * 9562 section 6.2, method 2).
 */
export function uuidv7After(last: string | null): string {
  const id = uuidv7();
  if (last === null || id > last) return id;
  const hex = (BigInt(`0x${last.replaceAll('-', '')}`) + 1n).toString(16).padStart(32, '0');
  return uuidOfHex(hex);
}

/** A new id in OpenAI's form: a prefix such as `chatcmpl-`, and a UUIDv7 without dashes. */
export const prefixedId = (prefix: string): string => prefix + uuidv7Hex();

const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

export const isUuid = (text: string): boolean => uuidPattern.test(text);

const uuidv7Pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;

/** Whether a text is a UUID of version 7, and of the variant that has versions (RFC 9562 section 5.7). */
export const isUuidv7 = (text: string): boolean => uuidv7Pattern.test(text);

/** The time in a UUIDv7, in milliseconds since the Unix epoch. */
export const uuidv7Ms = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16);

/** The largest time that fits into the 48 bits of a UUIDv7, in milliseconds. */
const msMax = 2 ** 48 - 1;

/** The smallest UUID whose time is not before `ms`: the inclusive start, or the exclusive end, of a range of ids. */
export function firstIdAt(ms: number): string {
  const hex = Math.min(Math.max(Math.ceil(ms), 0), msMax)
    .toString(16)
    .padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-0000-0000-000000000000`;
}

const jobIdPattern = /^job_[0-9a-f]{32}$/;

/** A background job's id as clients see it. */
export const publicJobId = (uuid: string): string => `job_${uuid.replaceAll('-', '')}`;

/** The UUID in a public id of a job; null for anything else. */
export const parseJobId = (text: string): string | null => (jobIdPattern.test(text) ? uuidOfHex(text.slice(4)) : null);
