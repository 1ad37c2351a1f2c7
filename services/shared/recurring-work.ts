import type { Logger } from './logger.ts';

export type RecurringWork = {
  /** Starts a round now, or another one right after the running one. */
  wake(): void;
  /** Starts no further round; resolves when the running one has ended. */
  close(): Promise<void>;
};

/**
 * Does a piece of work at once, or after `firstAfterMs`, and then repeatedly, `everyMs` milliseconds after the end of each round, so that no
 * two rounds of a process run at the same time. A failed round is logged; the next one makes up for it. Keeps no process alive.
 */
export function startRecurringWork(work: {
  /** Its name for the log, e.g. `the housekeeping of Jobs`. */
  name: string;
  everyMs: number;
  /** How long the first round waits for services that start after this one, in milliseconds. */
  firstAfterMs?: number;
  /** `signal` aborts when the work is closed: long work should then end. */
  round(signal: AbortSignal): Promise<unknown>;
  logger: Pick<Logger, 'warn'>;
}): RecurringWork {
  const { name, everyMs, firstAfterMs, round, logger } = work;
  const closing = new AbortController();
  let running: Promise<void> | null = null;
  let isWanted = false;
  let timer: NodeJS.Timeout | undefined;

  const rounds = async (): Promise<void> => {
    while (isWanted && !closing.signal.aborted) {
      isWanted = false;
      try {
        await round(closing.signal);
      } catch (err) {
        if (!closing.signal.aborted) logger.warn({ err }, `${name} failed; it will be retried`);
      }
    }
  };
  const wake = (): void => {
    isWanted = true;
    if (running !== null || closing.signal.aborted) return;
    clearTimeout(timer);
    running = rounds().finally(() => {
      running = null;
      if (closing.signal.aborted) return;
      // Woken while the last round was ending.
      if (isWanted) wake();
      else timer = setTimeout(wake, everyMs).unref();
    });
  };
  if (firstAfterMs === undefined) wake();
  else timer = setTimeout(wake, firstAfterMs).unref();

  return {
    wake,
    async close() {
      closing.abort();
      clearTimeout(timer);
      await running;
    },
  };
}
