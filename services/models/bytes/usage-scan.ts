import { fieldSet, ObjectScan, type ScanProblem, stringAt } from './json-scan.ts';
import { beginWalk, closeBrace, comma, quote, skipColon, skipSpace, skipString, skipValue } from './json-walk.ts';
import { type ReportedUsage, readUsage } from './reported-usage.ts';

/** What a whole JSON response says about its cost. */
export type ResponseUsage = {
  /** Null: nothing. */
  usage: ReportedUsage | null;
  /** The tier which the upstream served and bills, e.g. `flex`; null: not said. */
  serviceTier: string | null;
};

const fields = fieldSet('usage', 'service_tier');

/**
 * Reads the top-level `usage` and `service_tier` of a JSON response. Upstreams put them last, so that they are found from the
 * end, without reading what may be megabytes of images or embeddings; whatever looks unusual is scanned from the start. An escape in the spelling of `service_tier` hides it.
 */
export function readResponseUsage(body: Buffer): ResponseUsage {
  const tail = readTail(body, body.lastIndexOf('"usage"'));
  if (tail !== null && (tail.serviceTier !== null || body.indexOf('"service_tier"') === -1)) return tail;
  const scan = new ObjectScan(fields);
  const problem: ScanProblem | null = scan.read(body);
  if (problem !== null) return { usage: null, serviceTier: null };
  return { usage: readUsage(scan.json('usage')), serviceTier: scan.string('service_tier') ?? null };
}

/**
 * Reads on from `"usage"`, as from a member of the outermost object: if the document ends with the end of that object, it was one, and
 * the last of its name. Null: it was not, or cannot be told.
 */
function readTail(body: Buffer, start: number): ResponseUsage | null {
  const end = body.length;
  let position = start;
  let usage: ReportedUsage | null = null;
  let serviceTier: string | null = null;
  beginWalk();
  while (position >= 0 && position < end && body[position] === quote) {
    const nameStart = position + 1;
    position = skipString(body, nameStart, end);
    if (position < 0) return null;
    const name = body.toString('latin1', nameStart, position - 1);
    // It could be any name, this one or another.
    if (name.includes('\\')) return null;
    const valueStart = skipColon(body, position, end);
    if (valueStart < 0) return null;
    const valueEnd = skipValue(body, valueStart, end);
    if (valueEnd < 0) return null;
    if (name === 'usage') usage = readUsage(JSON.parse(body.toString('utf8', valueStart, valueEnd)));
    if (name === 'service_tier') serviceTier = stringAt(body, valueStart, valueEnd) ?? null;
    position = skipSpace(body, valueEnd, end);
    if (position < end && body[position] === closeBrace) {
      return skipSpace(body, position + 1, end) === end ? { usage, serviceTier } : null;
    }
    if (position >= end || body[position] !== comma) return null;
    position = skipSpace(body, position + 1, end);
  }
  return null;
}
