import type { Registry } from 'prom-client';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { listen } from '#shared/db/notify.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { startHoldingBilling } from '../budget/holding-billing.ts';
import { dueStatement } from '../db/leases.ts';
import { clockShiftMs } from '../db/time.ts';
import { createJobMetrics } from '../metrics.ts';
import { channels } from './channels.ts';
import { JobWorker, type JobWorkerDeps, workerDefaults } from './job-worker.ts';

/**
 * Starts a worker on the queue in the database. Notifications wake it, and it looks for itself once a second with the heartbeat of the
 * connection on which it listens.
 */
export async function startJobWorker(
  options: Omit<JobWorkerDeps, 'database' | 'metrics' | 'random'> & {
    connection: DatabaseUrl;
    registry: Registry;
    /** How long running jobs may go on after the worker is closed, in milliseconds; then another worker runs them. */
    drainMs: number;
  },
): Promise<{ close(): Promise<void> }> {
  const { connection, registry, drainMs, clock, logger } = options;
  // If the start fails, everything opened is closed again, last first; otherwise `close` does so.
  await using opened = new AsyncDisposableStack();
  const database = await openServiceDatabase({ service: 'jobs', connection, entities: [], logger });
  opened.defer(() => database.close());
  const holding = startHoldingBilling(options.billing, { clock, logger });
  opened.defer(() => holding.close());
  const deps = {
    ...options,
    database,
    billing: holding.billing,
    metrics: createJobMetrics(registry),
    random: Math.random,
  };
  let worker: JobWorker | undefined;
  const listener = await listen({
    connection,
    channels: {
      [channels.queued]: () => worker?.wake(),
      [channels.cancelled]: (jobId) => worker?.cancel(jobId),
    },
    onGap: () => void worker?.catchUp(),
    heartbeat: {
      statement: () => dueStatement(clockShiftMs(clock)),
      onRow: ({ is_queued: isQueued, is_lapsed: isLapsed }) => {
        if (isLapsed) worker?.reclaim();
        if (isQueued) worker?.wake();
      },
    },
    logger,
  });
  opened.defer(() => listener.close());
  // It takes jobs at once, and has to hear when one is cancelled.
  worker = new JobWorker(deps, workerDefaults);
  opened.defer(() => worker.close(drainMs));
  const closing = opened.move();
  return { close: () => closing.disposeAsync() };
}
