import { Gauge, type Registry } from 'prom-client';

/** Metrics of the ledger. */
export type BillingMetrics = {
  /** A verification of the whole ledger has ended. */
  ledgerVerified(faults: number): void;
};

/** Registers Billing's metrics; once per registry. */
export function createBillingMetrics(registry: Registry): BillingMetrics {
  const faults = new Gauge({
    name: 'gateway_ledger_faults',
    help: 'Faults that the latest daily verification, by whichever process, found in the ledger, at most 100 of each check; 0 before the first has ended.',
    registers: [registry],
  });
  return { ledgerVerified: (count) => faults.set(count) };
}
