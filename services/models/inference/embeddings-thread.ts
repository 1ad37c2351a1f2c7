import { parentPort } from 'node:worker_threads';
import { asBuffer } from '#shared/as-buffer.ts';
import { oneBuffer } from '../bytes/one-buffer.ts';
import { type EmbeddingFormat, type Embeddings, readEmbeddings } from './embeddings-answer.ts';

export type ReadingTask = { body: Uint8Array; format: EmbeddingFormat };

parentPort!.on('message', ({ body, format }: ReadingTask) => {
  const read = readEmbeddings(asBuffer(body), format);
  if (read === null) return parentPort!.postMessage(null);
  const whole = oneBuffer(read.pieces);
  const answer: Embeddings = { ...read, pieces: [whole] };
  // Short ones stand in Node's common pool, which cannot be given away.
  parentPort!.postMessage(answer, whole.byteLength > Buffer.poolSize ? [whole.buffer as ArrayBuffer] : []);
});
