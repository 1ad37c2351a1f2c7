import { Tinypool } from 'tinypool';
import { asBuffer } from '#shared/as-buffer.ts';
import { oneBuffer } from '../bytes/one-buffer.ts';
import { type Embeddings, type EmbeddingsAsked, readEmbeddings } from './embeddings-answer.ts';

export type ReadingTask = { body: Uint8Array; asked: EmbeddingsAsked };

/** As `readEmbeddings`; the answer is in one piece. */
export default function read({ body, asked }: ReadingTask): unknown {
  const embeddings = readEmbeddings(asBuffer(body), asked);
  if (embeddings === null) return null;
  const whole = oneBuffer(embeddings.pieces);
  const answer: Embeddings = { ...embeddings, pieces: [whole] };
  // Short ones stand in Node's common pool, which cannot be given away.
  if (whole.byteLength <= Buffer.poolSize) return answer;
  return Tinypool.move({ [Tinypool.transferableSymbol]: whole.buffer, [Tinypool.valueSymbol]: answer } as never);
}
