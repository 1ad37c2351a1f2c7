import type { BillingDeps } from '../deps.ts';
import { verifyLedgerOf } from '../ledger/verify.ts';
import { expireCredit } from './expire-credit.ts';
import { finalizeInvoices } from './finalize-invoices.ts';
import { grantMonthlyCredit } from './grant-monthly-credit.ts';
import { tidyLeases } from './tidy-leases.ts';

type Deps = Pick<BillingDeps, 'database' | 'databaseNow' | 'logger'>;

const minuteMs = 60_000;

/** Each runs at the start and then at its interval. Every one of them may run in several processes at once. */
const workers: readonly { name: string; everyMs: number; run(deps: Deps): Promise<unknown> }[] = [
  { name: 'tidy leases', everyMs: 5_000, run: tidyLeases },
  { name: 'expire credit', everyMs: minuteMs, run: expireCredit },
  { name: 'grant monthly credit', everyMs: minuteMs, run: grantMonthlyCredit },
  { name: 'finalize invoices', everyMs: 5 * minuteMs, run: finalizeInvoices },
  { name: 'verify ledger', everyMs: 24 * 60 * minuteMs, run: verifyLedger },
];

/** Starts Billing's recurring work; `close` waits for what runs. */
export function runWorkers(deps: Deps): { close(): Promise<void> } {
  const running = new Map<string, Promise<void>>();
  const timers = workers.map(({ name, everyMs, run }) => {
    const start = (): void => {
      if (running.has(name)) return;
      const work = run(deps)
        .then(() => {})
        .catch((err) => deps.logger.warn({ err, worker: name }, 'a worker of Billing failed; it runs again'))
        .finally(() => running.delete(name));
      running.set(name, work);
    };
    start();
    return setInterval(start, everyMs);
  });
  return {
    close: async () => {
      for (const timer of timers) clearInterval(timer);
      await Promise.all(running.values());
    },
  };
}

async function verifyLedger({ database, logger }: Deps): Promise<void> {
  const { faults } = await verifyLedgerOf(database, null);
  if (faults!.length > 0)
    logger.error({ faults: faults!.length, first: String(faults![0]!.subjectId) }, 'the ledger is wrong');
}
