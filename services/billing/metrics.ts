import { Counter, Gauge, type Registry } from 'prom-client';

/** Metrics of the ledger and of payments. */
export type BillingMetrics = {
  /** What the latest verification of the whole ledger found, by whichever process, and when; null: there was none yet. */
  ledgerVerified(faults: number, at: Date | null): void;
  /** A payment was reported that only an operator can book. */
  paymentUnbooked(): void;
};

/** Registers Billing's metrics; once per registry. */
export function createBillingMetrics(registry: Registry): BillingMetrics {
  const registers = [registry];
  const faults = new Gauge({
    name: 'gateway_ledger_faults',
    help: 'Faults that the latest daily verification, by whichever process, found in the ledger, at most 100 of each check; 0 before the first has ended.',
    registers,
  });
  const verifiedAt = new Gauge({
    name: 'gateway_ledger_verified_timestamp_seconds',
    help: 'When the latest verification that has ended began, in Unix seconds; 0 before the first has ended.',
    registers,
  });
  const unbooked = new Counter({
    name: 'gateway_unbooked_payments_total',
    help: 'Payments, and what went back of them, that were reported but not booked, as for their currency; each is in the log.',
    registers,
  });
  return {
    ledgerVerified(count, at) {
      faults.set(count);
      verifiedAt.set((at?.getTime() ?? 0) / 1000);
    },
    paymentUnbooked: () => unbooked.inc(),
  };
}
