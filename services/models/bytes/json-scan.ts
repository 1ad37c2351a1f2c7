import { isUtf8 } from 'node:buffer';
import { type FieldSet, matchDecodedKey, matchPlainKey } from './field-set.ts';
import {
  beginWalk,
  closeBrace,
  closeBracket,
  comma,
  countElement,
  countName,
  malformed,
  openBrace,
  openBracket,
  quote,
  skipColon,
  skipSpace,
  skipString,
  skipValue,
  tooDeep,
  tooMany,
  type WalkLimits,
} from './json-walk.ts';

export { type FieldSet, fieldSet } from './field-set.ts';

/**
 * Why bytes cannot be read as an object: not UTF-8 (RFC 8259 section 8.1), not JSON, too deep, too many members or elements, or another
 * kind of JSON.
 */
export type ScanProblem = 'encoding' | 'syntax' | 'depth' | 'size' | 'not_object';

/** For a document sent by a client: ten times as many would hold up the event loop for longer than others should wait. */
export const clientLimits: WalkLimits = { names: 100_000, elements: 1_000_000 };

type JsonKind = 'string' | 'number' | 'boolean' | 'null' | 'object' | 'array';

/** Where a member stands in the bytes. */
type Member = {
  /** The opening quote of its name; the member ends with its value. */
  start: number;
  valueStart: number;
  valueEnd: number;
  /** The commas around it; -1 for the first and the last member. */
  commaBefore: number;
  commaAfter: number;
  /** Its place among the members of the object, from 0. */
  ordinal: number;
};

/** What to do with the objects of an array while walking over it: a walk of its own would cost as much again. */
type ItemReader<Name extends string = string> = {
  /** The member that holds the array. */
  in: Name;
  scan: ObjectScan;
  /**
   * Called with each object, which `scan` has just read, and its index. Discard the results if the document turns out not to be
   * well-formed.
   */
  take(place: number): void;
};

/**
 * One pass over a JSON object in bytes that checks all of it and notes where the wanted members are. It accepts what JSON.parse accepts,
 * with the same values, except for text that is not UTF-8 or is nested more than 1,000 deep.
 */
export class ObjectScan<Name extends string = string> {
  readonly fields: FieldSet<Name>;
  readonly #members: (Member | undefined)[];
  readonly #duplicate: boolean[];
  readonly #items: ItemReader<Name> | null;
  readonly #itemsField: number;
  bytes: Buffer = emptyBytes;
  /** The positions of the braces. */
  open = 0;
  close = 0;
  memberCount = 0;
  /**
   * A wanted member that occurs twice, or again in another case (`"Model"`). Parsers differ on which one counts, so the upstream could act
   * on another value than the one checked here: such a request must be refused.
   */
  ambiguous: Name | null = null;
  /** Whether a wanted member occurs twice, spelled the same. */
  hasDuplicate = false;
  /** How many objects of the wanted array were taken; -1: there is no such array, or not all of its items are objects. */
  itemCount = -1;

  constructor(fields: FieldSet<Name>, items: ItemReader<Name> | null = null) {
    this.fields = fields;
    this.#members = fields.names.map(() => undefined);
    this.#duplicate = fields.names.map(() => false);
    this.#items = items;
    this.#itemsField = items === null ? -1 : fields.names.indexOf(items.in);
  }

  /** Reads the object in `bytes[start, end)`, with optional space around it; a scan may be reused. Null: it is well-formed. */
  read(bytes: Buffer, start = 0, end: number = bytes.length, limits?: WalkLimits): ScanProblem | null {
    beginWalk(limits);
    const position = skipSpace(bytes, start, end);
    if (position >= end) return 'syntax';
    if (bytes[position] !== openBrace) return problemOfOther(bytes, position, end);
    const problem = this.readPart(bytes, position, end);
    if (problem !== null) return problem;
    return skipSpace(bytes, this.close + 1, end) === end ? null : 'syntax';
  }

  /** Reads the object whose brace is at `position` in bytes that are being walked; `close` is where it ends. */
  readPart(bytes: Buffer, position: number, end: number): ScanProblem | null {
    this.bytes = bytes;
    this.memberCount = 0;
    this.ambiguous = null;
    this.hasDuplicate = false;
    this.itemCount = -1;
    const members = this.#members;
    for (let index = 0; index < members.length; index += 1) {
      members[index] = undefined;
      this.#duplicate[index] = false;
    }
    this.open = position;
    position = skipSpace(bytes, position + 1, end);
    if (position < end && bytes[position] === closeBrace) return this.#closeAt(position);
    let commaBefore = -1;
    for (;;) {
      if (position >= end || bytes[position] !== quote) return 'syntax';
      if (!countName()) return 'size';
      const memberStart = position;
      position = plainKeyEnd(bytes, position + 1, end);
      let field: number;
      if (position < end && bytes[position] === quote) {
        field = matchPlainKey(this.fields, bytes, memberStart + 1, position);
        position += 1;
      } else {
        position = skipString(bytes, position, end);
        if (position < 0) return 'syntax';
        field = matchDecodedKey(this.fields, JSON.parse(bytes.toString('utf8', memberStart, position)) as string);
      }
      const valueStart = skipColon(bytes, position, end);
      if (valueStart < 0) return 'syntax';
      const holdsItems = field !== -1 && field === this.#itemsField;
      const valueEnd = holdsItems ? this.#readItems(bytes, valueStart, end) : skipValue(bytes, valueStart, end);
      if (valueEnd < 0) return problemOf(valueEnd);
      position = skipSpace(bytes, valueEnd, end);
      if (position >= end) return 'syntax';
      const last = bytes[position] !== comma;
      if (field !== -1) {
        const commaAfter = last ? -1 : position;
        this.#found(field, {
          start: memberStart,
          valueStart,
          valueEnd,
          commaBefore,
          commaAfter,
          ordinal: this.memberCount,
        });
      }
      this.memberCount += 1;
      if (last) return bytes[position] === closeBrace ? this.#closeAt(position) : 'syntax';
      commaBefore = position;
      position = skipSpace(bytes, position + 1, end);
    }
  }

  /** Steps over the value at `start` and, if it is an array, reads the objects in it. */
  #readItems(bytes: Buffer, start: number, end: number): number {
    const { scan, take } = this.#items!;
    this.itemCount = -1;
    if (bytes[start] !== openBracket) return skipValue(bytes, start, end);
    this.itemCount = 0;
    let position = skipSpace(bytes, start + 1, end);
    if (position < end && bytes[position] === closeBracket) return position + 1;
    for (;;) {
      if (position < end && bytes[position] !== openBrace) {
        this.itemCount = -1;
        return skipValue(bytes, start, end);
      }
      if (position >= end || scan.readPart(bytes, position, end) !== null) return malformed;
      take(this.itemCount);
      this.itemCount += 1;
      position = skipSpace(bytes, scan.close + 1, end);
      if (position < end && bytes[position] === closeBracket) return position + 1;
      if (position >= end || bytes[position] !== comma || !countElement()) return malformed;
      position = skipSpace(bytes, position + 1, end);
    }
  }

  #found(field: number, member: Member): void {
    const exact = field >= 0;
    const index = exact ? field : -2 - field;
    if (!exact || this.#members[index] !== undefined) this.ambiguous ??= this.fields.names[index]!;
    if (!exact) return;
    if (this.#members[index] !== undefined) {
      this.#duplicate[index] = true;
      this.hasDuplicate = true;
    }
    // The last one counts, as for JSON.parse.
    this.#members[index] = member;
  }

  #closeAt(position: number): null {
    this.close = position;
    return null;
  }

  member(name: Name): Member | undefined {
    const index = this.fields.names.indexOf(name);
    // A caller that asks for a name it never listed would take it for absent.
    if (index === -1) throw new TypeError(`${name} is not a member that was looked for`);
    return this.#members[index];
  }

  has(name: Name): boolean {
    return this.member(name) !== undefined;
  }

  /** Whether the name occurs more than once, spelled the same. */
  duplicate(name: Name): boolean {
    return this.#duplicate[this.fields.names.indexOf(name)] === true;
  }

  /** The kind of the member's value; undefined when there is no such member. */
  kind(name: Name): JsonKind | undefined {
    const member = this.member(name);
    return member === undefined ? undefined : kindOf(this.bytes[member.valueStart]!);
  }

  /** The member's value, if it is a string. */
  string(name: Name): string | undefined {
    const member = this.member(name);
    return member === undefined ? undefined : stringAt(this.bytes, member.valueStart, member.valueEnd);
  }

  /** The member's value, if it is a number; as JSON.parse gives it, so that 1e400 is Infinity. */
  number(name: Name): number | undefined {
    const member = this.member(name);
    if (member === undefined || kindOf(this.bytes[member.valueStart]!) !== 'number') return undefined;
    const digit = this.bytes[member.valueStart]! - 0x30;
    // Making a string costs more than everything else here, and an index usually has one digit.
    if (digit >= 0 && member.valueEnd - member.valueStart === 1) return digit;
    return Number(this.bytes.toString('latin1', member.valueStart, member.valueEnd));
  }

  /** The member's value, if it is a boolean. */
  boolean(name: Name): boolean | undefined {
    const member = this.member(name);
    if (member === undefined || kindOf(this.bytes[member.valueStart]!) !== 'boolean') return undefined;
    return this.bytes[member.valueStart] === 0x74;
  }

  /** The member's value, parsed; undefined when there is no such member. */
  json(name: Name): unknown {
    const member = this.member(name);
    return member === undefined
      ? undefined
      : JSON.parse(this.bytes.toString('utf8', member.valueStart, member.valueEnd));
  }

  /** The length of the member's value in bytes, quotes included; 0 when there is no such member. */
  valueBytes(name: Name): number {
    const member = this.member(name);
    return member === undefined ? 0 : member.valueEnd - member.valueStart;
  }
}

const emptyBytes = Buffer.alloc(0);

/** Reads a whole document of a client, which must be one JSON object in UTF-8 without a byte order mark. */
export function scanObject<Name extends string>(body: Buffer, fields: FieldSet<Name>): ObjectScan<Name> | ScanProblem {
  if (!isUtf8(body)) return 'encoding';
  const scan = new ObjectScan(fields);
  return scan.read(body, 0, body.length, clientLimits) ?? scan;
}

/** The string that is the well-formed value in `bytes[start, end)`; undefined when it is no string. */
function stringAt(bytes: Buffer, start: number, end: number): string | undefined {
  if (bytes[start] !== quote) return undefined;
  const text = bytes.toString('utf8', start + 1, end - 1);
  return text.includes('\\') ? (JSON.parse(`"${text}"`) as string) : text;
}

/** The kind of a value, by its first byte. */
function kindOf(first: number): JsonKind {
  switch (first) {
    case 0x22:
      return 'string';
    case 0x7b:
      return 'object';
    case 0x5b:
      return 'array';
    case 0x74:
    case 0x66:
      return 'boolean';
    case 0x6e:
      return 'null';
    default:
      return 'number';
  }
}

/** The position of the closing quote of a key in printable ASCII without escapes; for other keys, of the first byte that is neither. */
function plainKeyEnd(bytes: Buffer, position: number, end: number): number {
  while (position < end) {
    const byte = bytes[position]!;
    if (byte === quote || byte === 0x5c || byte < 0x20 || byte > 0x7e) return position;
    position += 1;
  }
  return end;
}

function problemOfOther(bytes: Buffer, position: number, end: number): ScanProblem {
  const valueEnd = skipValue(bytes, position, end);
  if (valueEnd < 0) return problemOf(valueEnd);
  return skipSpace(bytes, valueEnd, end) === end ? 'not_object' : 'syntax';
}

/** What a walk's negative result means. */
function problemOf(ending: number): ScanProblem {
  if (ending === tooDeep) return 'depth';
  return ending === tooMany ? 'size' : 'syntax';
}
