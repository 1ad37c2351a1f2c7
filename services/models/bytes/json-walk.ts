import { StringWindow } from './string-window.ts';

/**
 * Steps over JSON in bytes, checking it as strictly as JSON.parse does (RFC 8259), except that strings are not checked to be UTF-8. Each
 * function takes the position of its subject's first byte, and returns the position after it, or a negative number when it is not
 * well-formed. Call `beginWalk` first.
 */

/** Values nested deeper than this are refused, as the parsers of most upstreams refuse them. */
const depthMax = 1000;
/** Not JSON. */
export const malformed = -1;
/** Nested deeper than `depthMax`. */
export const tooDeep = -2;
/** With more names or elements than `beginWalk` allowed. */
export const tooMany = -3;

export const quote = 0x22;
const backslash = 0x5c;
export const openBrace = 0x7b;
export const closeBrace = 0x7d;
export const openBracket = 0x5b;
export const closeBracket = 0x5d;
export const comma = 0x2c;
const colon = 0x3a;

/** How far a string is walked byte by byte before the window is used, since calling it costs as much as about this many bytes. */
const shortStringBytes = 16;

/** Made once, like a regular expression: it holds only scratch space. */
const window = new StringWindow();

/** The most member names and array elements in a document, nested ones included. */
export type WalkLimits = { names: number; elements: number };
const unlimited: WalkLimits = { names: Number.POSITIVE_INFINITY, elements: Number.POSITIVE_INFINITY };

/** How many more may follow. */
let namesLeft = unlimited.names;
let elementsLeft = unlimited.elements;

/**
 * Call this before walking bytes: they may have changed, or the same buffer may hold others. Beyond the limits the walk ends with
 * `tooMany`.
 */
export function beginWalk(limits: WalkLimits = unlimited): void {
  window.forget();
  namesLeft = limits.names;
  elementsLeft = limits.elements;
}

/** Counts a name; false when it is one too many. */
export const countName = (): boolean => --namesLeft >= 0;

/** Counts an array element after the first; false when it is one too many. */
export const countElement = (): boolean => --elementsLeft >= 0;

/** The position of the first byte that is not white space; `end` if there is none. */
export function skipSpace(bytes: Buffer, position: number, end: number): number {
  while (position < end) {
    const byte = bytes[position]!;
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return position;
    position += 1;
  }
  return end;
}

/** Steps over the rest of a string, from anywhere between its quotes except the middle of an escape. */
export function skipString(bytes: Buffer, position: number, end: number): number {
  const near = Math.min(end, position + shortStringBytes);
  while (position < near) {
    const byte = bytes[position]!;
    if (byte === quote) return position + 1;
    if (byte === backslash) {
      position = skipEscape(bytes, position, end);
      if (position < 0) return malformed;
    } else if (byte < 0x20) {
      return malformed;
    } else {
      position += 1;
    }
  }
  return position < end ? skipLongString(bytes, position, end) : malformed;
}

function skipLongString(bytes: Buffer, position: number, end: number): number {
  while (position < end) {
    position = window.find(bytes, position, end);
    if (position >= end) return malformed;
    const byte = bytes[position]!;
    if (byte === quote) return position + 1;
    if (byte !== backslash) return malformed;
    position = skipEscape(bytes, position, end);
    if (position < 0) return malformed;
  }
  return malformed;
}

/** Steps over an escape, from its backslash. */
function skipEscape(bytes: Buffer, position: number, end: number): number {
  if (position + 1 >= end) return malformed;
  switch (bytes[position + 1]) {
    case 0x22: // "
    case 0x5c: // \
    case 0x2f: // /
    case 0x62: // b
    case 0x66: // f
    case 0x6e: // n
    case 0x72: // r
    case 0x74: // t
      return position + 2;
    case 0x75: // u
      if (position + 6 > end) return malformed;
      for (let digit = position + 2; digit < position + 6; digit += 1) if (!isHex(bytes[digit]!)) return malformed;
      return position + 6;
    default:
      return malformed;
  }
}

const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;

function isHex(byte: number): boolean {
  const lower = byte | 0x20;
  return isDigit(byte) || (lower >= 0x61 && lower <= 0x66);
}

function skipDigits(bytes: Buffer, position: number, end: number): number {
  const start = position;
  while (position < end && isDigit(bytes[position]!)) position += 1;
  return position > start ? position : malformed;
}

function skipNumber(bytes: Buffer, position: number, end: number): number {
  if (bytes[position] === 0x2d) position += 1; // -
  // A leading zero stands alone.
  if (position < end && bytes[position] === 0x30) position += 1;
  else position = skipDigits(bytes, position, end);
  if (position < 0) return malformed;
  if (position < end && bytes[position] === 0x2e) {
    position = skipDigits(bytes, position + 1, end);
    if (position < 0) return malformed;
  }
  if (position < end && (bytes[position]! | 0x20) === 0x65) {
    position += 1;
    if (position < end && (bytes[position] === 0x2b || bytes[position] === 0x2d)) position += 1;
    position = skipDigits(bytes, position, end);
  }
  return position;
}

function skipScalar(bytes: Buffer, position: number, end: number): number {
  switch (bytes[position]) {
    case quote:
      return skipString(bytes, position + 1, end);
    case 0x74:
      return skipWord(bytes, position, end, 0x72, 0x75, 0x65);
    case 0x6e:
      return skipWord(bytes, position, end, 0x75, 0x6c, 0x6c);
    case 0x66:
      // One byte longer than the others: its last four are compared from the a, which is checked first.
      return bytes[position + 1] === 0x61 ? skipWord(bytes, position + 1, end, 0x6c, 0x73, 0x65) : malformed;
    default:
      return skipNumber(bytes, position, end);
  }
}

/** The rest of a four-letter word whose first letter has been seen. */
function skipWord(bytes: Buffer, at: number, end: number, second: number, third: number, fourth: number): number {
  if (at + 4 > end) return malformed;
  return bytes[at + 1] === second && bytes[at + 2] === third && bytes[at + 3] === fourth ? at + 4 : malformed;
}

/** Steps over a member's name, its colon and the space around it, to where its value must start. */
function skipName(bytes: Buffer, position: number, end: number): number {
  if (position >= end || bytes[position] !== quote) return malformed;
  if (!countName()) return tooMany;
  position = skipString(bytes, position + 1, end);
  return position < 0 ? malformed : skipColon(bytes, position, end);
}

export function skipColon(bytes: Buffer, position: number, end: number): number {
  position = skipSpace(bytes, position, end);
  return position < end && bytes[position] === colon ? skipSpace(bytes, position + 1, end) : malformed;
}

/** Steps over any value, without recursion. */
export function skipValue(bytes: Buffer, position: number, end: number): number {
  if (position >= end) return malformed;
  const first = bytes[position];
  return first === openBrace || first === openBracket
    ? skipContainer(bytes, position, end)
    : skipScalar(bytes, position, end);
}

/** The closing bytes of the containers around the innermost one. One list serves all walks: each ends before the next begins. */
const outer = new Uint8Array(depthMax);

function skipContainer(bytes: Buffer, position: number, end: number): number {
  let depth = 0;
  let closing = 0;
  for (;;) {
    // A value starts here.
    if (position >= end) return malformed;
    const byte = bytes[position];
    let empty = false;
    if (byte === openBrace || byte === openBracket) {
      if (depth >= depthMax) return tooDeep;
      outer[depth++] = closing;
      closing = byte === openBrace ? closeBrace : closeBracket;
      position = skipSpace(bytes, position + 1, end);
      empty = position < end && bytes[position] === closing;
      if (!empty) {
        if (closing === closeBrace) position = skipName(bytes, position, end);
        if (position < 0) return position;
        continue;
      }
    } else {
      position = skipScalar(bytes, position, end);
      if (position < 0) return malformed;
      position = skipSpace(bytes, position, end);
    }
    // A value has ended: close the containers that end with it.
    while (position < end && bytes[position] === closing) {
      position += 1;
      closing = outer[--depth]!;
      if (closing === 0) return position;
      position = skipSpace(bytes, position, end);
    }
    if (position >= end || bytes[position] !== comma) return malformed;
    position = skipSpace(bytes, position + 1, end);
    if (closing === closeBrace) position = skipName(bytes, position, end);
    else if (!countElement()) return tooMany;
    if (position < 0) return position;
  }
}
