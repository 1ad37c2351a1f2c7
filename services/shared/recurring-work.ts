import type { Logger } from './logger.ts';

export type RecurringWork = {
  /** Has a round begin now, or one more right behind the round under way. */
  wake(): void;
  /** Begins no further round; resolves when the one under way has ended. */
  close(): Promise<void>;
};

/**
 * Does a piece of work at once, or after `firstAfterMs`, and then again and again, `everyMs` milliseconds behind the end of each round, so that no two rounds of a
 * process run at the same time. One that fails is logged, and made up for by the next. Keeps no process alive.
 */
export function startRecurringWork(work: {
  /** What it is, for the log, e.g. `the housekeeping of Jobs`. */
  name: string;
  everyMs: number;
  /** How long the first round waits for what starts behind this. */
  firstAfterMs?: number;
  /** `signal` aborts when the work is closed: what takes long should end then. */
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
        if (!closing.signal.aborted) logger.warn({ err }, `${name} failed; it is tried again`);
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
      // Woken while the last round came to its end.
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
