import { objectsIn } from '../bytes/array-items.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { readUsage } from '../bytes/reported-usage.ts';
import { applySplices, type Splice } from '../bytes/splice.ts';
import { measuresOf, type WholeAnswer } from './whole-answer-reader.ts';

export type EmbeddingFormat = 'float' | 'base64';

const answerFields = fieldSet('data', 'usage');
const itemFields = fieldSet('embedding');

/**
 * Reads a list of embeddings and brings each to the encoding that the client asked for: some upstreams know one only, and
 * clients take the other for an empty vector in silence (openai-contract.md section 4). Null when it is no such list.
 */
export function readEmbeddings(
  body: Buffer,
  format: EmbeddingFormat,
  countInputTokens: () => Promise<number>,
): WholeAnswer | null {
  const scan = new ObjectScan(answerFields);
  if (scan.read(body) !== null || scan.hasDuplicate || scan.kind('data') !== 'array') return null;
  const { valueStart, valueEnd } = scan.member('data')!;
  const items = objectsIn(body, valueStart, valueEnd);
  const splices = items === null ? null : conversions(body, items, format);
  if (splices === null) return null;
  const usage = readUsage(scan.json('usage'));
  return {
    forward: splices.length === 0 ? [body] : applySplices(body, 0, body.length, splices),
    // Embeddings have no output tokens, whatever some upstreams report.
    reported: usage === null ? null : { ...measuresOf(usage), outputTokens: 0 },
    counted: async () => ({ inputTokens: await countInputTokens() }),
  };
}

/** The changes that bring each vector to the format; none for those that have it. Null when an item has no vector. */
function conversions(
  body: Buffer,
  items: readonly { start: number; end: number }[],
  format: EmbeddingFormat,
): Splice[] | null {
  const splices: Splice[] = [];
  const scan = new ObjectScan(itemFields);
  for (const { start, end } of items) {
    if (scan.read(body, start, end) !== null || scan.hasDuplicate) return null;
    const kind = scan.kind('embedding');
    if (kind !== 'array' && kind !== 'string') return null;
    if ((kind === 'string') === (format === 'base64')) continue;
    const converted = kind === 'string' ? numbersOf(scan.string('embedding')!) : base64Of(scan.json('embedding'));
    if (converted === null) return null;
    const member = scan.member('embedding')!;
    splices.push({ start: member.valueStart, end: member.valueEnd, text: converted });
  }
  return splices;
}

/** Little-endian float32 in base64, from an array of numbers. */
function base64Of(vector: unknown): string | null {
  if (!(vector as unknown[]).every((value) => typeof value === 'number')) return null;
  const numbers = vector as number[];
  const bytes = Buffer.allocUnsafe(numbers.length * 4);
  for (let index = 0; index < numbers.length; index++) bytes.writeFloatLE(numbers[index]!, index * 4);
  return `"${bytes.toString('base64')}"`;
}

function numbersOf(base64: string): string | null {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length % 4 !== 0 || (bytes.length === 0 && base64 !== '')) return null;
  const numbers: number[] = [];
  for (let offset = 0; offset < bytes.length; offset += 4) {
    const value = bytes.readFloatLE(offset);
    // JSON knows no NaN.
    if (!Number.isFinite(value)) return null;
    numbers.push(value);
  }
  return JSON.stringify(numbers);
}
