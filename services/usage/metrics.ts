import { Counter, type Registry } from 'prom-client';
import { CellCounter, CellHistogram } from '#shared/metrics.ts';

/** Metrics of the end of the metering pipeline. */
export type UsageMetrics = {
  /** One event was stored, this long after its call had ended. */
  stored(lagMs: number): void;
  /** How many events of a batch were stored before, and how many can never be stored. */
  batch(counts: { duplicates: number; rejected: number }): void;
  /** A batch could not be stored, for whatever reason; the shipper sends it again. */
  batchRefused(): void;
  /** Billing refused an event for good. */
  chargeRefused(): void;
};

const lagBucketsSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2, 5, 30, 300, 3600];

/** Registers Usage's metrics; once per registry. */
export function createUsageMetrics(registry: Registry): UsageMetrics {
  const registers = [registry];
  const lag = new CellHistogram(registry, {
    name: 'gateway_usage_lag_seconds',
    help: 'Time from the end of a call until its usage event was stored.',
    buckets: lagBucketsSeconds,
  }).cell();
  const events = new CellCounter({
    name: 'gateway_usage_events_total',
    help: 'Usage events received, by what became of them.',
    labelNames: ['outcome'],
    registers,
  });
  const refusedBatches = new Counter({
    name: 'gateway_usage_refused_batches_total',
    help: 'Batches that could not be stored and will be sent again.',
    registers,
  });
  const refusedCharges = new Counter({
    name: 'gateway_refused_charges_total',
    help: 'Stored usage events that Billing refused for good: they are never charged; the log names them.',
    registers,
  });
  const [stored, duplicate, rejected] = ['stored', 'duplicate', 'rejected'].map((outcome) => events.cell({ outcome }));
  return {
    stored(lagMs) {
      lag.observe(Math.max(0, lagMs) / 1000);
      stored!.inc();
    },
    batch(counts) {
      duplicate!.inc(counts.duplicates);
      rejected!.inc(counts.rejected);
    },
    batchRefused: () => refusedBatches.inc(),
    chargeRefused: () => refusedCharges.inc(),
  };
}
