import { fieldSet, ObjectScan } from './json-scan.ts';

/** A piece of JSON text: as bytes if prepared, else as a string. */
type JsonText = Uint8Array | string;

/** Replaces `[start, end)` by the text. */
export type Splice = { start: number; end: number; text: JsonText };

/** The new value of a member, whether it existed or not; null removes it. */
export type MemberEdit<Name extends string> = readonly [name: Name, value: JsonText | null];

/**
 * The bytes of a scanned document with members set and removed, as pieces of the original with the new ones between: nothing is copied. New
 * members come first in the object.
 */
export function spliceMembers<Name extends string>(
  scan: ObjectScan<Name>,
  edits: readonly MemberEdit<Name>[],
): readonly Uint8Array[] {
  return applySplices(scan.bytes, 0, scan.bytes.length, memberSplices(scan, edits));
}

/** The ordered splices that set and remove members of a scanned document. */
export function memberSplices<Name extends string>(
  scan: ObjectScan<Name>,
  edits: readonly MemberEdit<Name>[],
): Splice[] {
  const splices: Splice[] = [];
  const removed = [];
  let inserted = '';
  for (const [name, value] of edits) {
    if (scan.duplicate(name)) throw new TypeError(`${name} stands there twice: refuse it instead of editing it`);
    const member = scan.member(name);
    if (value === null) {
      if (member !== undefined) removed.push(member);
    } else if (member !== undefined) {
      splices.push({ start: member.valueStart, end: member.valueEnd, text: value });
    } else {
      inserted += `${inserted === '' ? '' : ','}"${name}":${typeof value === 'string' ? value : Buffer.from(value).toString()}`;
    }
  }
  removed.sort((one, other) => one.ordinal - other.ordinal);
  removed.forEach((member, index) => {
    // Each takes the comma before it along; those at the very front take the comma after them.
    const atFront = member.ordinal === index;
    const start = atFront ? member.start : member.commaBefore;
    const end = atFront && member.commaAfter !== -1 ? member.commaAfter + 1 : member.valueEnd;
    splices.push({ start, end, text: '' });
  });
  if (inserted !== '') {
    const text = scan.memberCount > removed.length ? `${inserted},` : inserted;
    splices.push({ start: scan.open + 1, end: scan.open + 1, text });
  }
  return inOrder(splices);
}

/** Sorts splices by their start; most lists have one or two. */
export function inOrder(splices: Splice[]): Splice[] {
  return splices.length < 2 ? splices : splices.sort((one, other) => one.start - other.start || one.end - other.end);
}

/** The pieces of `bytes[start, end)` with splices applied, which are in order and do not overlap. */
export function applySplices(
  bytes: Buffer,
  start: number,
  end: number,
  splices: readonly Splice[],
): readonly Uint8Array[] {
  const pieces: Uint8Array[] = [];
  let position = start;
  for (const splice of splices) {
    if (splice.start > position) pieces.push(bytes.subarray(position, splice.start));
    if (splice.text.length > 0) pieces.push(typeof splice.text === 'string' ? Buffer.from(splice.text) : splice.text);
    position = splice.end;
  }
  if (position < end) pieces.push(bytes.subarray(position, end));
  return pieces;
}

const usageOptions = fieldSet('include_usage');

/** Whether the client asked for a usage chunk: `stream_options.include_usage` is true. */
export function asksForUsage<Name extends string>(scan: ObjectScan<Name | 'stream_options'>): boolean {
  const options = readStreamOptions(scan);
  return options?.boolean('include_usage') === true;
}

/** Whether `stream_options` are missing, or have no other member. */
export function asksForUsageAlone<Name extends string>(scan: ObjectScan<Name | 'stream_options'>): boolean {
  const kind = scan.kind('stream_options');
  if (kind === undefined || kind === 'null') return true;
  const options = readStreamOptions(scan);
  return options !== null && options.memberCount === (options.kind('include_usage') === 'boolean' ? 1 : 0);
}

/**
 * The edit that sets `stream_options.include_usage` to true; null when there is nothing to do, because it is true already or the upstream
 * will refuse these `stream_options`.
 */
export function includeUsageEdit<Name extends string>(
  scan: ObjectScan<Name | 'stream_options'>,
): MemberEdit<'stream_options'> | null {
  const kind = scan.kind('stream_options');
  if (kind === undefined || kind === 'null') return ['stream_options', '{"include_usage":true}'];
  const options = readStreamOptions(scan);
  if (options === null) return null;
  if (options.ambiguous !== null) {
    const { include_usage: _, ...others } = scan.json('stream_options') as Record<string, unknown>;
    // Members that differ only in case are removed as well.
    const kept = Object.entries(others).filter(([name]) => name.toUpperCase().toLowerCase() !== 'include_usage');
    return ['stream_options', JSON.stringify({ ...Object.fromEntries(kept), include_usage: true })];
  }
  if (options.boolean('include_usage') === true) return null;
  const { valueStart, valueEnd } = scan.member('stream_options')!;
  const pieces = applySplices(scan.bytes, valueStart, valueEnd, memberSplices(options, [['include_usage', 'true']]));
  return ['stream_options', Buffer.concat(pieces)];
}

function readStreamOptions<Name extends string>(
  scan: ObjectScan<Name | 'stream_options'>,
): ObjectScan<'include_usage'> | null {
  const member = scan.member('stream_options');
  if (member === undefined || scan.kind('stream_options') !== 'object') return null;
  const options = new ObjectScan(usageOptions);
  return options.read(scan.bytes, member.valueStart, member.valueEnd) === null ? options : null;
}
