import { Worker } from 'node:worker_threads';
import type { EmbeddingFormat, Embeddings } from './embeddings-answer.ts';
import type { ReadingTask } from './embeddings-thread.ts';
import { upstreamFailed } from './upstream-errors.ts';

/**
 * Reads large lists of embeddings in a thread, one after the other: a thousand vectors as decimal numbers would hold the event loop, and
 * everybody else's calls, for a fifth of a second.
 */
export type LargeEmbeddings = {
  /** As `readEmbeddings`. Takes the body's memory away. @throws GatewayError UPSTREAM_FAILED when it does not fit into the thread's memory. */
  read(body: Buffer, format: EmbeddingFormat): Promise<Embeddings | null>;
};

/** The thread starts with the first body, since many processes never get one. It keeps no process alive. */
export function createLargeEmbeddings(): LargeEmbeddings {
  let thread: Worker | undefined;
  let line: PromiseWithResolvers<Embeddings | null>[] = [];

  function startThread(): Worker {
    const started = new Worker(new URL('./embeddings-thread.ts', import.meta.url));
    started.unref();
    started.on('message', (read: Embeddings | null) => line.shift()!.resolve(read));
    // 'exit' follows.
    started.on('error', () => {});
    started.on('exit', () => {
      for (const { reject } of line) reject(upstreamFailed('the embeddings could not be read'));
      thread = undefined;
      line = [];
    });
    return started;
  }

  return {
    read(body, format) {
      const reading = Promise.withResolvers<Embeddings | null>();
      thread ??= startThread();
      const task: ReadingTask = { body, format };
      thread.postMessage(task, [body.buffer as ArrayBuffer]);
      line.push(reading);
      return reading.promise;
    },
  };
}
