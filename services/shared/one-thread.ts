import type { ResourceLimits } from 'node:worker_threads';
import pLimit from 'p-limit';
import { Tinypool } from 'tinypool';

/** Has the thread do a task. `transferList`: what is handed over to it rather than copied. An aborted task ends the thread. */
type Run = <Answer>(
  task: unknown,
  options?: { signal?: AbortSignal; transferList?: readonly ArrayBufferLike[] },
) => Promise<Answer>;

/** A thread for work that would hold the event loop, and with it everybody else. */
type OneThread = {
  /** Lets `work` use the thread in its turn. If that ends the thread, it fails alone: the next one gets another. */
  inTurn<Answer>(work: (run: Run) => Promise<Answer>): Promise<Answer>;
  /** How many wait for their turn. */
  readonly waiting: number;
  /** Ends the thread; what runs and what waits fails. */
  close(): Promise<void>;
};

/** A thread that was idle for this long is ended: it takes up to 50 MiB. */
const idleMsMax = 60_000;

/**
 * `file` exports by default the function that works there. The thread starts with the first work, since many processes never get any, and
 * keeps no process alive.
 */
export function createOneThread(file: URL, resourceLimits?: ResourceLimits): OneThread {
  const turns = pLimit(1);
  let isClosed = false;
  const pool = new Tinypool({
    filename: file.href,
    minThreads: 0,
    maxThreads: 1,
    idleTimeout: idleMsMax,
    resourceLimits,
  });
  /** Of the task that was begun last. */
  let failed = new AbortController();
  // Of a thread that could not be started, as without a free descriptor, or failed after its answer; the next task gets another. The task for
  // which it was to be started would wait for ever.
  pool.on('error', (error) => failed.abort(error));

  const run: Run = async (task, { signal, transferList } = {}) => {
    failed = new AbortController();
    const start = failed.signal;
    // The library takes its type of a list from a message port's, which the types of browsers change.
    const options = { transferList, signal: signal === undefined ? start : AbortSignal.any([signal, start]) } as object;
    try {
      return await pool.run(task, options);
    } catch (error) {
      throw start.aborted ? start.reason : error;
    }
  };

  return {
    inTurn: (work) =>
      turns(() => {
        if (isClosed) throw new Error('the thread for this has ended');
        return work(run);
      }),
    get waiting() {
      return turns.pendingCount;
    },
    async close() {
      isClosed = true;
      await pool.destroy();
    },
  };
}
