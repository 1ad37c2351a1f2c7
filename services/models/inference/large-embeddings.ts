import type { ResourceLimits } from 'node:worker_threads';
import { messageOf } from '#shared/message-of.ts';
import { createOneThread } from '#shared/one-thread.ts';
import type { Embeddings, EmbeddingsAsked } from './embeddings-answer.ts';
import type { ReadingTask } from './embeddings-thread.ts';
import { upstreamFailed } from './upstream-errors.ts';

/**
 * Reads large lists of embeddings in a thread, one after the other: a thousand vectors as decimal numbers would hold the event loop, and
 * everybody else's calls, for a fifth of a second.
 */
export type LargeEmbeddings = {
  /** As `readEmbeddings`. Takes the body's memory away. @throws GatewayError UPSTREAM_ERROR when it does not fit into the thread's memory. */
  read(body: Buffer, asked: EmbeddingsAsked): Promise<Embeddings | null>;
  /** Ends the thread; what is not read by then fails. */
  close(): Promise<void>;
};

/** The thread's limits are Node's by default. */
export function createLargeEmbeddings(resourceLimits?: ResourceLimits): LargeEmbeddings {
  const thread = createOneThread(new URL('./embeddings-thread.ts', import.meta.url), resourceLimits);
  return {
    async read(body, asked) {
      const task: ReadingTask = { body, asked };
      try {
        return await thread.inTurn((run) => run(task, { transferList: [body.buffer] }));
      } catch (error) {
        if (!isForMemory(error)) throw error;
        throw upstreamFailed(`the embeddings could not be read: ${messageOf(error)}`);
      }
    },
    close: () => thread.close(),
  };
}

/** Its thread was ended for it, or a text or buffer would be longer than there can be. Anything else is no fault of the upstream. */
const isForMemory = (error: unknown): boolean =>
  error instanceof RangeError || (error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY';
