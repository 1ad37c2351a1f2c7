import { setTimeout as delay } from 'node:timers/promises';
import { type FailureLogger, RepeatedFailures } from './repeated-failures.ts';

/** How long a scrape waits for the database, in milliseconds: the rest of /metrics should not wait for a slow one. */
const readMsMax = 500;

/**
 * For metrics that a scrape of /metrics reads in the database: begins a reading, or joins the running one, and resolves when it has ended,
 * or after half a second. While the database has not answered, the last values stay; once it has failed to, `forget` takes them away, so
 * that nobody takes how it was for how it is. `name` says what is done, for the log: `counting the jobs`.
 */
export function readAtScrape(
  name: string,
  logger: FailureLogger,
  { read, forget }: { read(): Promise<void>; forget(): void },
): () => Promise<void> {
  const failures = new RepeatedFailures(name, logger);
  let reading: Promise<void> | undefined;
  const readOnce = async (): Promise<void> => {
    try {
      await read();
      failures.succeeded();
    } catch (err) {
      forget();
      failures.failed(err, 'failed; its metrics are left out');
    } finally {
      reading = undefined;
    }
  };
  return () => {
    reading ??= readOnce();
    return Promise.race([reading, delay(readMsMax, undefined, { ref: false })]);
  };
}
