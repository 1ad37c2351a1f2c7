import { startRecurringWorks } from '#shared/recurring-work.ts';
import type { BillingMetrics } from '../metrics.ts';
import type { WorkerDeps } from './each-organization.ts';
import { expireCredit } from './expire-credit.ts';
import { finalizeInvoices } from './finalize-invoices.ts';
import { forgetPaymentEvents } from './forget-payment-events.ts';
import { forgetSpend } from './forget-spend.ts';
import { grantMonthlyCredit } from './grant-monthly-credit.ts';
import { tidyLeases } from './tidy-leases.ts';
import { verifyLedger } from './verify-ledger.ts';

const minuteMs = 60_000;

type Deps = WorkerDeps & { metrics: BillingMetrics };

/** Each may run in several processes at once. */
const workers: readonly { name: string; everyMs: number; run(deps: Deps): Promise<unknown> }[] = [
  { name: 'tidy leases', everyMs: 5_000, run: tidyLeases },
  { name: 'expire credit', everyMs: minuteMs, run: expireCredit },
  { name: 'grant monthly credit', everyMs: minuteMs, run: grantMonthlyCredit },
  { name: 'finalize invoices', everyMs: 5 * minuteMs, run: finalizeInvoices },
  { name: 'forget payment events', everyMs: 60 * minuteMs, run: forgetPaymentEvents },
  { name: 'forget spend', everyMs: 60 * minuteMs, run: forgetSpend },
  { name: 'verify ledger', everyMs: 60 * minuteMs, run: verifyLedger },
];

/** Starts Billing's recurring work; `close` waits for the running round. */
export function runWorkers(deps: Deps): { close(): Promise<void> } {
  return startRecurringWorks(
    workers.map(({ name, everyMs, run }) => ({
      name: `Billing's worker \`${name}\``,
      everyMs,
      round: (signal) => run({ ...deps, signal }),
      logger: deps.logger,
    })),
  );
}
