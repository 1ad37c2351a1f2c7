import { Gauge, type Registry } from 'prom-client';
import { readAtScrape } from './read-at-scrape.ts';
import type { FailureLogger } from './repeated-failures.ts';

/**
 * How many entries wait in an outbox, and for how long the oldest has waited, in seconds; 0 when none wait. `refused`: how many stay in it
 * because their receiver will never take them, where that can be.
 */
export type Waiting = { count: number; oldestSeconds: number; refused?: number };

const labelNames = ['service', 'outbox'] as const;
type Label = (typeof labelNames)[number];

const name = 'gateway_outbox_waiting';

/** The backlog in the outboxes of all services of a process. */
class OutboxGauge extends Gauge<Label> {
  readonly oldest: Gauge<Label>;
  readonly refused: Gauge<Label>;
  readonly readers: (() => Promise<void>)[] = [];
  #reading: Promise<unknown> = Promise.resolve();

  constructor(registry: Registry) {
    const help = 'Items that wait in an outbox of a service: due emails, batches of charges, audit events.';
    super({ name, help, labelNames, registers: [registry] });
    this.oldest = new Gauge({
      name: 'gateway_outbox_oldest_seconds',
      help: 'How long the oldest item in an outbox has waited; 0 when it is empty.',
      labelNames,
      aggregator: 'max',
      registers: [registry],
      collect: async () => void (await this.#reading),
    });
    this.refused = new Gauge({
      name: 'gateway_outbox_refused',
      help: 'Items that stay in an outbox because they were refused for good: audit events that are in no audit chain.',
      labelNames,
      registers: [registry],
      collect: async () => void (await this.#reading),
    });
  }

  /** Called by prom-client at each scrape. */
  async collect(): Promise<void> {
    this.#reading = Promise.all(this.readers.map((read) => read()));
    await this.#reading;
  }
}

/** Shows the backlog of a service's outbox and the age of its oldest entry, read at each scrape of /metrics; nothing while it cannot be. */
export function showOutbox(
  registry: Registry,
  { logger, read, ...labels }: Record<Label, string> & { logger: FailureLogger; read(): Promise<Waiting> },
): void {
  const waiting = (registry.getSingleMetric(name) as OutboxGauge | undefined) ?? new OutboxGauge(registry);
  const { service, outbox } = labels;
  const atScrape = readAtScrape(`counting the outbox \`${outbox}\` of ${service}`, logger, {
    async read() {
      const { count, oldestSeconds, refused } = await read();
      waiting.set(labels, count);
      if (refused !== undefined) waiting.refused.set(labels, refused);
      waiting.oldest.set(labels, Math.max(0, oldestSeconds));
    },
    forget() {
      for (const gauge of [waiting, waiting.refused, waiting.oldest]) gauge.remove(labels);
    },
  });
  waiting.readers.push(atScrape);
}
