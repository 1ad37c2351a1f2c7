import { errorBytesMax } from '../upstream/error-body.ts';
import { fieldSet, ObjectScan } from './json-scan.ts';
import type { SseFrame } from './sse.ts';

type ErrorScan<Name extends string> = ObjectScan<Name | 'error' | 'object' | 'type'>;

/**
 * Whether an object is an error, even with parts of an answer beside it: `{"error":{…}}`, vLLM's flat `{"object":"error",…}`, or an event
 * of type `error`. Some servers answer 200 with one. In a stream clients fail at it; whole, they would take a broken answer for a complete
 * one.
 */
export const isError = <Name extends string>(scan: ErrorScan<Name>): boolean =>
  hasError(scan) || saysError(scan, 'object') || saysError(scan, 'type');

/** As clients see it: an error that is null, false, 0 or an empty string is none. */
export function hasError<Name extends string>(scan: ObjectScan<Name | 'error'>): boolean {
  switch (scan.kind('error')) {
    case undefined:
    case 'null':
      return false;
    case 'boolean':
      return scan.boolean('error') === true;
    case 'number':
      return scan.number('error') !== 0;
    case 'string':
      return scan.valueBytes('error') > '""'.length;
    default:
      return true;
  }
}

const saysError = <Name extends string>(scan: ObjectScan<Name>, name: Name): boolean =>
  scan.valueBytes(name) === '"error"'.length && scan.string(name) === 'error';

/** The error in a frame's data, as its upstream wrote it; null: none. `scan` has read the data; null: they are no object. */
export function errorInFrame<Name extends string>(
  { event, data, dataStart, dataEnd }: SseFrame,
  scan: ErrorScan<Name> | null,
): string | null {
  if (scan !== null && isError(scan)) return written(scan, dataStart, dataEnd);
  return event === 'error' ? textOf(data, dataStart, dataEnd) : null;
}

/** The `finish_reason` of a choice that broke off, as OpenRouter and vLLM spell it. */
export const brokenOff = 'error';

const errorFields = fieldSet('error', 'object', 'type', 'choices');
const choiceFields = fieldSet('error');

/** The error of a whole body, or of one of its choices, as with OpenRouter, in its upstream's words; null: none. */
export function errorInBody(body: Buffer): string | null {
  if (body.length > errorBytesMax) return null;
  let ofChoice: string | null = null;
  const choice = new ObjectScan(choiceFields);
  const scan = new ObjectScan(errorFields, {
    in: 'choices',
    scan: choice,
    take() {
      if (choice.kind('error') === 'object') ofChoice ??= written(choice, choice.open, choice.close + 1);
    },
  });
  if (scan.read(body) !== null) return null;
  return isError(scan) ? written(scan, 0, body.length) : ofChoice;
}

/** The error member of the object in `bytes[start, end)`, without its neighbours: they may be an answer, which must not be logged. */
function written<Name extends string>(scan: ObjectScan<Name | 'error'>, start: number, end: number): string {
  if (scan.kind('error') !== 'object') return textOf(scan.bytes, start, end);
  const { valueStart, valueEnd } = scan.member('error')!;
  return `{"error":${textOf(scan.bytes, valueStart, valueEnd)}}`;
}

const textOf = (bytes: Buffer, start: number, end: number): string =>
  bytes.toString('utf8', start, Math.min(end, start + errorBytesMax));
