import { setTimeout as delay } from 'node:timers/promises';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { channels } from './channels.ts';

/** The least time between two notifications: workers look no more often (job-worker.ts). */
const gatherMs = 20;

/**
 * Tells all workers that a job waits, with one notification for everything submitted shortly after the last one. It is not part of the
 * submission's transaction: Postgres lets only one transaction with a notification commit at a time, and a lost wake-up costs only a
 * second.
 */
export function wakeWorkers(database: Pick<ServiceDatabase, 'query'>, logger: Pick<Logger, 'debug'>): () => void {
  let isSending = false;
  let isWanted = false;
  const send = async (): Promise<void> => {
    isSending = true;
    while (isWanted) {
      isWanted = false;
      try {
        await database.query({ name: 'jobs-wake', text: `select pg_notify('${channels.queued}', '')` });
      } catch (err) {
        logger.debug({ err }, 'workers could not be woken; they look for jobs every second anyway');
      }
      await delay(gatherMs, undefined, { ref: false });
    }
    isSending = false;
  };
  return () => {
    isWanted = true;
    if (!isSending) void send();
  };
}
