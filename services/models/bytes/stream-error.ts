import { errorBytesMax } from '../upstream/error-body.ts';
import { fieldSet, ObjectScan } from './json-scan.ts';
import type { SseFrame } from './sse.ts';

/**
 * Whether an object is an error in place of an answer, or of a piece of one: `{"error":{…}}`, the flat `{"object":"error",…}` of vLLM, or
 * an event of the type `error`.
 */
export function isError<Name extends string>(scan: ObjectScan<Name | 'error' | 'object' | 'type'>): boolean {
  const kind = scan.kind('error');
  return (kind !== undefined && kind !== 'null') || saysError(scan, 'object') || saysError(scan, 'type');
}

const saysError = <Name extends string>(scan: ObjectScan<Name>, name: Name): boolean =>
  scan.valueBytes(name) === '"error"'.length && scan.string(name) === 'error';

/** The error that a frame's data tell, as its upstream wrote it; null: none. `scan` has read them; null: they are no object. */
export function errorInFrame<Name extends string>(
  { event, data, dataStart, dataEnd }: SseFrame,
  scan: ObjectScan<Name | 'error' | 'object' | 'type'> | null,
): string | null {
  if (event !== 'error' && (scan === null || !isError(scan))) return null;
  return data.toString('utf8', dataStart, Math.min(dataEnd, dataStart + errorBytesMax));
}

const errorFields = fieldSet('error', 'object', 'type');

/** The error that a whole body tells, as its upstream wrote it; null: none. */
export function errorInBody(body: Buffer): string | null {
  if (body.length > errorBytesMax) return null;
  const scan = new ObjectScan(errorFields);
  return scan.read(body) === null && isError(scan) ? body.toString() : null;
}
