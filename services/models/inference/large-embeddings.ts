import { type ResourceLimits, Worker } from 'node:worker_threads';
import type { EmbeddingFormat, Embeddings } from './embeddings-answer.ts';
import type { ReadingTask } from './embeddings-thread.ts';
import { upstreamFailed } from './upstream-errors.ts';

/**
 * Reads large lists of embeddings in a thread, one after the other: a thousand vectors as decimal numbers would hold the event loop, and
 * everybody else's calls, for a fifth of a second.
 */
export type LargeEmbeddings = {
  /** As `readEmbeddings`. Takes the body's memory away. @throws GatewayError UPSTREAM_ERROR when it does not fit into the thread's memory. */
  read(body: Buffer, format: EmbeddingFormat): Promise<Embeddings | null>;
};

type Waiting = PromiseWithResolvers<Embeddings | null> & { task: ReadingTask };

/** The thread starts with the first body, since many processes never get one, and keeps no process alive. Its limits are Node's by default. */
export function createLargeEmbeddings(resourceLimits?: ResourceLimits): LargeEmbeddings {
  let thread: Worker | undefined;
  /** The only one that the thread has: if it ends of that, the others are read by the next. */
  let served: Waiting | undefined;
  const line: Waiting[] = [];

  function startThread(): Worker {
    const started = new Worker(new URL('./embeddings-thread.ts', import.meta.url), { resourceLimits });
    started.unref();
    started.on('message', (read: Embeddings | null) => {
      served!.resolve(read);
      serveNext();
    });
    let failure = 'their thread has ended';
    // 'exit' follows.
    started.on('error', (error) => {
      failure = (error as Error).message;
    });
    started.on('exit', () => {
      thread = undefined;
      served?.reject(upstreamFailed(`the embeddings could not be read: ${failure}`));
      serveNext();
    });
    return started;
  }

  function serveNext(): void {
    served = line.shift();
    if (served === undefined) return;
    thread ??= startThread();
    thread.postMessage(served.task, [served.task.body.buffer as ArrayBuffer]);
  }

  return {
    read(body, format) {
      const reading = { ...Promise.withResolvers<Embeddings | null>(), task: { body, format } };
      line.push(reading);
      if (served === undefined) serveNext();
      return reading.promise;
    },
  };
}
