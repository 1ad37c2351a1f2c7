import { objectsIn } from '../bytes/array-items.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import { measuresOf, type WholeAnswer } from './whole-answer-reader.ts';

const fields = fieldSet('data', 'usage');

/** Reads a list of images; it is passed on byte for byte. Null when it is none. */
export function readImages(body: Buffer): WholeAnswer | null {
  const scan = new ObjectScan(fields);
  if (scan.read(body) !== null || scan.kind('data') !== 'array') return null;
  const { valueStart, valueEnd } = scan.member('data')!;
  const images = objectsIn(body, valueStart, valueEnd);
  if (images === null) return null;
  const usage = readUsage(scan.json('usage'));
  return {
    forward: [body],
    // A model is priced by images or by tokens: both are measured, and its price says which is sold.
    reported: { ...(usage === null ? undefined : measuresOf(usage)), images: images.length },
    counted: async () => ({}),
  };
}
