import { fieldSet, ObjectScan } from './json-scan.ts';
import { beginWalk, skipSpace } from './json-walk.ts';
import { type ReportedUsage, readUsage } from './reported-usage.ts';

/** What a whole JSON response says about its cost. */
export type ResponseUsage = {
  /** Null: nothing. */
  usage: ReportedUsage | null;
  /** The tier which the upstream served and bills, e.g. `flex`; null: not said. */
  serviceTier: string | null;
};

const fields = fieldSet('usage', 'service_tier');
const usageName = Buffer.from('"usage"');
const tierName = Buffer.from('"service_tier"');

/**
 * Reads the top-level `usage` and `service_tier` of a JSON response. Upstreams put them last, so that they are found from the
 * end, without reading what may be megabytes of images or embeddings; whatever looks unusual is scanned from the start. An escape in
 * the spelling of `service_tier` hides it.
 */
export function readResponseUsage(body: Buffer): ResponseUsage {
  const scan = new ObjectScan(fields);
  const usageAt = body.lastIndexOf(usageName);
  const found =
    (usageAt > 0 && readTail(scan, body, usageAt) && (scan.has('service_tier') || !body.includes(tierName))) ||
    scan.read(body) === null;
  if (!found) return { usage: null, serviceTier: null };
  return { usage: readUsage(scan.json('usage')), serviceTier: scan.string('service_tier') ?? null };
}

/**
 * Reads on from `"usage"` as if the object began there: if the document ends where the object does, then it is the outermost one, and
 * nothing in it is nested that is read as its member.
 */
function readTail(scan: ObjectScan<'usage' | 'service_tier'>, body: Buffer, usageAt: number): boolean {
  beginWalk();
  const { length } = body;
  return scan.readPart(body, usageAt - 1, length) === null && skipSpace(body, scan.close + 1, length) === length;
}
