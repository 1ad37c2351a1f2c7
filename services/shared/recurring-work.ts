import { type FailureLogger, RepeatedFailures } from './repeated-failures.ts';

export type RecurringWork = {
  /** Starts a round now, or another one right after the running one. */
  wake(): void;
  /** Starts no further round; resolves when the running one has ended. */
  close(): Promise<void>;
};

/** How far apart the first rounds of several works begin, in milliseconds: all at once would open a database connection for each. */
const apartMs = 100;

/** Work may come once a day: after a failure it does not wait for that, in milliseconds. */
const retryMsMax = 60_000;

type Work = {
  /** Its name for the log, e.g. `the housekeeping of Keys`. */
  name: string;
  everyMs: number;
  /** How long the first round waits for services that start after this one, in milliseconds. */
  firstAfterMs?: number;
  /** `signal` aborts when the work is closed: long work should then end. */
  round(signal: AbortSignal): Promise<unknown>;
  logger: FailureLogger;
};

/**
 * Does a piece of work at once, or after `firstAfterMs`, and then repeatedly, `everyMs` milliseconds after the end of each round, so that no
 * two rounds of a process run at the same time. A failed round is repeated within a minute, and logged if the next one fails too.
 * Keeps no process alive.
 */
export function startRecurringWork(work: Work): RecurringWork {
  const { name, everyMs, firstAfterMs, round, logger } = work;
  const failures = new RepeatedFailures(name, logger);
  const closing = new AbortController();
  let running: Promise<void> | null = null;
  let isWanted = false;
  let hasFailed = false;
  let timer: NodeJS.Timeout | undefined;

  const rounds = async (): Promise<void> => {
    while (isWanted && !closing.signal.aborted) {
      isWanted = false;
      try {
        await round(closing.signal);
        hasFailed = false;
        failures.succeeded();
      } catch (err) {
        hasFailed = true;
        if (!closing.signal.aborted) failures.failed(err, 'failed; it will be retried');
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
      else wakeIn(hasFailed ? Math.min(everyMs, retryMsMax) : everyMs);
    });
  };
  const wakeIn = (ms: number): void => {
    timer = setTimeout(wake, ms).unref();
  };
  if (firstAfterMs === undefined) wake();
  else wakeIn(firstAfterMs);

  return {
    wake,
    async close() {
      closing.abort();
      clearTimeout(timer);
      await running;
    },
  };
}

/** Starts several pieces of work, which then do not wait for each other; `close` waits for the running rounds. */
export function startRecurringWorks(works: readonly Omit<Work, 'firstAfterMs'>[]): Pick<RecurringWork, 'close'> {
  const running = works.map((work, index) => startRecurringWork({ ...work, firstAfterMs: index * apartMs }));
  return {
    close: async () => {
      await Promise.all(running.map((work) => work.close()));
    },
  };
}
