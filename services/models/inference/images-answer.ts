import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import { measuresOf, type WholeAnswer } from './whole-answer-reader.ts';

const fields = fieldSet('data', 'usage');
/** An image is counted, whatever it says. */
const imageFields = fieldSet();

/** Reads a list of images; it is passed on byte for byte. Null when it is none. */
export function readImages(body: Buffer): WholeAnswer | null {
  const scan = new ObjectScan(fields, { in: 'data', scan: new ObjectScan(imageFields), take() {} });
  if (scan.read(body) !== null || scan.itemCount === -1) return null;
  const usage = readUsage(scan.json('usage'));
  return {
    forward: [body],
    // A model is priced by images or by tokens: both are measured, and its price says which is sold.
    reported: { ...(usage === null ? undefined : measuresOf(usage)), images: scan.itemCount },
    counted: async () => ({}),
  };
}
