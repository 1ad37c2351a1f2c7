import { type Aggregator, Counter, Gauge, type Registry } from 'prom-client';
import { bound, CellCounter, CellHistogram, type HistogramCell, latencySeconds } from '#shared/metrics.ts';
import type { Following } from '#shared/rpc/follow-stream.ts';
import type { Catalog } from './catalog/catalog.ts';
import type { DeploymentRuntime, RunMetrics, Verdict } from './catalog/deployment-runtime.ts';
import type { Journal } from './metering/journal.ts';
import type { MeteringJournal } from './metering/metered-call.ts';
import type { MeteredEvent, MeteredProgress } from './metering/metered-event.ts';
import type { ShipperStats } from './metering/shipper.ts';

/** How the verdict of a run on its deployment is counted. */
const outcomes = { good: 'answered', bad: 'failed', busy: 'rate_limited', none: 'abandoned' } as const satisfies Record<
  Verdict['kind'],
  string
>;

/** Metrics of what deployments are given and how they answer, by model and deployment. */
export function upstreamMetrics(registry: Registry): (model: string, deployment: string) => RunMetrics {
  const runs = new CellCounter({
    name: 'gateway_upstream_requests_total',
    help: 'Requests sent to deployments, by outcome: answered (including refusals of a bad request), failed, rate_limited, or abandoned (the client left, or the server takes no WebSockets).',
    labelNames: ['model', 'deployment', 'outcome'],
    registers: [registry],
  });
  const heads = new CellHistogram(registry, {
    name: 'gateway_upstream_first_byte_seconds',
    help: 'Time from a request to a deployment until its response began.',
    buckets: latencySeconds,
  });
  const ofModel = bound((model: string) =>
    bound((deployment: string): RunMetrics => {
      const cell = (kind: Verdict['kind']) => runs.cell({ model, deployment, outcome: outcomes[kind] });
      const cells = { good: cell('good'), bad: cell('bad'), busy: cell('busy'), none: cell('none') };
      // Only once it has answered: a catalog may have thousands of deployments, and a histogram has twenty series.
      let head: HistogramCell | undefined;
      return {
        answered(ms) {
          head ??= heads.cell({ model, deployment });
          head.observe(ms / 1000);
        },
        ended: (kind) => cells[kind].inc(),
      };
    }),
  );
  return (model, deployment) => ofModel(model)(deployment);
}

/** What the catalog's deployments are doing at the moment of a scrape. */
export function catalogMetrics(registry: Registry, catalog: Pick<Catalog, 'all'>): void {
  const gauge = (
    name: string,
    help: string,
    aggregator: Aggregator,
    read: (runtime: DeploymentRuntime) => number,
  ): void => {
    new Gauge({
      name,
      help,
      aggregator,
      labelNames: ['model', 'deployment'],
      registers: [registry],
      collect() {
        this.reset();
        for (const { name: model, deployments } of catalog.all()) {
          for (const runtime of deployments) this.set({ model, deployment: runtime.id }, read(runtime));
        }
      },
    });
  };
  gauge('gateway_upstream_in_flight', 'Requests that a deployment is running now.', 'sum', ({ inFlight }) => inFlight);
  gauge(
    'gateway_upstream_available',
    '1 while a deployment may be given requests; 0 while it is pending, failed or ejected; absent while it is stopped.',
    'min',
    ({ available }) => Number(available),
  );
}

/** The journal, which also counts the tokens of ended calls by model. */
export function countingTokens(registry: Registry, journal: MeteringJournal): MeteringJournal {
  const tokens = new CellCounter({
    name: 'gateway_tokens_total',
    help: 'Tokens metered for ended calls, by model; cached_input is part of input.',
    labelNames: ['model', 'kind'],
    registers: [registry],
  });
  const ofModel = bound((model: string) => ({
    input: tokens.cell({ model, kind: 'input' }),
    cachedInput: tokens.cell({ model, kind: 'cached_input' }),
    output: tokens.cell({ model, kind: 'output' }),
  }));
  return {
    get healthy() {
      return journal.healthy;
    },
    begin: (id, call) => journal.begin(id, call),
    progress: (id, progress, done) => journal.progress(id, progress, done),
    end(id, event, done) {
      const { input, cachedInput, output } = ofModel(event.model);
      input.inc(event.inputTokens);
      cachedInput.inc(event.cachedInputTokens);
      output.inc(event.outputTokens);
      journal.end(id, event, done);
    },
    drop: (id) => journal.drop(id),
  };
}

/** How long the data that this process decides by may have been out of date. */
export function feedMetrics(registry: Registry, feeds: Readonly<Record<string, Pick<Following, 'silentMs'>>>): void {
  new Gauge({
    name: 'gateway_feed_silent_seconds',
    help: 'Time since a feed was last heard from, with news or without; meanwhile its last state stays in force.',
    labelNames: ['feed'],
    aggregator: 'max',
    registers: [registry],
    collect() {
      for (const [feed, following] of Object.entries(feeds)) this.set({ feed }, following.silentMs() / 1_000);
    },
  });
}

/** Counts the sessions whose sound found no room. */
export function refusedSound(registry: Registry): () => void {
  const refused = new Counter({
    name: 'gateway_realtime_refused_sound_total',
    help: 'Realtime sessions that were ended because what they heard found no room in memory.',
    registers: [registry],
  });
  return () => refused.inc();
}

/** What became of usage events on their way from the journal to Usage. */
export function shipperMetrics(registry: Registry, stats: () => ShipperStats): void {
  const counter = (name: string, help: string, of: keyof ShipperStats): void => {
    new Counter({
      name,
      help,
      registers: [registry],
      collect() {
        this.reset();
        this.inc(stats()[of]);
      },
    });
  };
  counter(
    'gateway_journal_refused_events_total',
    'Usage events that Usage refused for good: they are never charged, and kept only in the log.',
    'refusedEvents',
  );
  counter('gateway_journal_failed_calls_total', 'Calls to Usage that failed; they are retried.', 'failedCalls');
}

/** The state of the journal, and of the room in budgets that this process holds. */
export function meteringMetrics(
  registry: Registry,
  journal: Pick<Journal<MeteredEvent, MeteredProgress>, 'stats'>,
  {
    damagedSegments,
    shippingLagMs,
    budgets,
  }: {
    damagedSegments: () => number;
    /** Of events on their way to Usage, those of ended processes included. */
    shippingLagMs: () => number;
    budgets: { readonly leaseCount: number };
  },
): void {
  /** `ofAll`: how the values of several processes are combined. */
  const gauge = (name: string, help: string, read: () => number, ofAll: Aggregator = 'sum'): void => {
    new Gauge({
      name,
      help,
      aggregator: ofAll,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  };
  gauge('gateway_journal_bytes', 'Size of the metering journal on disk.', () => journal.stats().bytes);
  gauge('gateway_journal_pending_events', 'Usage events that are not stored yet.', () => journal.stats().pendingEvents);
  gauge(
    'gateway_journal_lag_seconds',
    'Age of the oldest usage event that is not stored yet; what an ended process left counts from when it was found.',
    () => Math.max(journal.stats().lagMs, shippingLagMs()) / 1000,
    'max',
  );
  gauge(
    'gateway_journal_healthy',
    '1 while the journal can be written; 0 while it cannot, and new requests are refused.',
    () => Number(journal.stats().healthy),
    'min',
  );
  gauge(
    'gateway_journal_damaged_segments',
    'Journal segments that could not be read to their end; they are kept in DATA_DIR.',
    damagedSegments,
    'max',
  );
  gauge('gateway_budget_leases', 'Leases of room in budgets that Billing knows of.', () => budgets.leaseCount);
}
