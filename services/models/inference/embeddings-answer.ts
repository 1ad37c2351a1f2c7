import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';
import { type ReportedUsage, readUsage } from '../bytes/reported-usage.ts';
import { applySplices, inOrder, type MemberEdit, memberSplices, type Splice } from '../bytes/splice.ts';
import { isError } from '../bytes/stream-error.ts';
import { measuresOf, type UsageBound } from './usage-bound.ts';
import type { WholeAnswer } from './whole-answer-reader.ts';

type EmbeddingFormat = 'float' | 'base64';

/** What the client asked for: an encoding, and a model by a name. */
export type EmbeddingsAsked = { format: EmbeddingFormat; model: string };

/** A list of embeddings as the client gets it. Data only, so that a thread can send it. */
export type Embeddings = {
  /** The whole answer; if it has no usage, which clients require, without the opening brace. */
  pieces: readonly Uint8Array[];
  hasUsage: boolean;
  usage: ReportedUsage | null;
};

const answerFields = fieldSet('data', 'model', 'usage', 'error', 'object', 'type');
const itemFields = fieldSet('embedding', 'index', 'object');

/**
 * Reads a list of embeddings and converts each to the encoding that the client asked for: some upstreams know only one, and clients
 * silently take the other for an empty vector (openai-contract.md section 4). What typed clients require is added: the index 0, for one,
 * which Google omits, and the model, as the client named it. Null when it is no such list.
 */
export function readEmbeddings(body: Buffer, { format, model }: EmbeddingsAsked): Embeddings | null {
  const item = new ObjectScan(itemFields);
  const splices: Splice[] = [];
  let areVectors = true;
  const scan = new ObjectScan(answerFields, {
    in: 'data',
    scan: item,
    take(place) {
      const edits: MemberEdit<(typeof itemFields.names)[number]>[] = [];
      if (item.kind('index') !== 'number') edits.push(['index', String(place)]);
      if (item.kind('object') !== 'string') edits.push(['object', '"embedding"']);
      if (edits.length > 0 && !item.hasDuplicate) splices.push(...memberSplices(item, edits));
      areVectors &&= convert(item, format, splices);
    },
  });
  if (scan.read(body) !== null || scan.hasDuplicate || scan.itemCount === -1 || !areVectors) return null;
  if (isError(scan)) return null;
  const hasUsage = scan.kind('usage') === 'object';
  const edits: MemberEdit<(typeof answerFields.names)[number]>[] = [];
  if (!hasUsage) edits.push(['usage', null]);
  if (scan.kind('object') !== 'string') edits.push(['object', '"list"']);
  if (scan.kind('model') !== 'string') edits.push(['model', JSON.stringify(model)]);
  if (edits.length > 0) splices.push(...memberSplices(scan, edits));
  return {
    pieces: applySplices(body, hasUsage ? 0 : scan.open + 1, body.length, inOrder(splices)),
    hasUsage,
    usage: readUsage(scan.json('usage')),
  };
}

/** The answer with these embeddings; Google omits the usage, which is then counted and added. */
export function embeddingsAnswer(
  { pieces, hasUsage, usage }: Embeddings,
  bound: UsageBound,
  countInputTokens: () => Promise<number>,
): WholeAnswer {
  // Embeddings have no output tokens, whatever some upstreams report.
  const used = usage === null ? null : { ...measuresOf(usage), outputTokens: 0 };
  const withUsage = (inputTokens: number): readonly Uint8Array[] => {
    const told = JSON.stringify({ prompt_tokens: inputTokens, total_tokens: inputTokens });
    return [Buffer.from(`{"usage":${told},`), ...pieces];
  };
  return {
    forward: hasUsage ? pieces : withUsage(0),
    forwardWith: hasUsage ? undefined : ({ inputTokens }) => withUsage(inputTokens),
    reported: used !== null && bound.allows(used) ? used : null,
    counted: async () => ({ inputTokens: await countInputTokens() }),
  };
}

/** Adds the change that converts an item's vector to the wanted format, if needed; false when there is no vector. */
function convert(
  item: ObjectScan<(typeof itemFields.names)[number]>,
  format: EmbeddingFormat,
  splices: Splice[],
): boolean {
  if (item.hasDuplicate) return false;
  const kind = item.kind('embedding');
  if (kind !== 'array' && kind !== 'string') return false;
  if ((kind === 'string') === (format === 'base64')) return true;
  const converted = kind === 'string' ? numbersOf(item.string('embedding')!) : base64Of(item.json('embedding'));
  if (converted === null) return false;
  const { valueStart, valueEnd } = item.member('embedding')!;
  splices.push({ start: valueStart, end: valueEnd, text: converted });
  return true;
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
