import { Counter, type LabelValues, type Metric, type Registry } from 'prom-client';

/*
 * Metrics of what happens on every request. prom-client looks up the labels at each observation, even of a bound child, which costs
 * microseconds; a cell is a number that is added to, and read at a scrape.
 */

/** One series of a counter. */
class CounterCell {
  #count = 0;

  inc(by = 1): void {
    this.#count += by;
  }

  /** What was counted since the last call. */
  take(): number {
    const count = this.#count;
    this.#count = 0;
    return count;
  }
}

/** A prom-client counter that also adds up what its cells have counted. */
export class CellCounter<Label extends string> extends Counter<Label> {
  readonly #cells: { labels: LabelValues<Label>; cell: CounterCell }[] = [];

  /** Called by prom-client at each scrape. */
  collect(): void {
    for (const { labels, cell } of this.#cells) this.inc(labels, cell.take());
  }

  /**
   * The series with these labels, to be kept by the caller: a second cell with the same labels would also be correct, but cost as much
   * again.
   */
  cell(labels: LabelValues<Label>): CounterCell {
    const cell = new CounterCell();
    this.#cells.push({ labels, cell });
    return cell;
  }
}

/** One line of a histogram; prom-client makes the text of `sharedLabels` only once for all lines that have the same object. */
type HistogramValue = {
  metricName: string;
  labels: { le?: number | string };
  sharedLabels: Readonly<Record<string, string>>;
  value: number;
};

/** One series of a histogram. */
export class HistogramCell {
  readonly labels: Readonly<Record<string, string>>;
  readonly #upperBounds: readonly number[];
  /** By bucket, not accumulated; the last one is for values above all bounds. */
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(labels: Readonly<Record<string, string>>, upperBounds: readonly number[]) {
    this.labels = labels;
    this.#upperBounds = upperBounds;
    this.#counts = new Float64Array(upperBounds.length + 1);
  }

  observe(value: number): void {
    let bucket = 0;
    while (value > this.#upperBounds[bucket]!) bucket += 1;
    this.#counts[bucket]! += 1;
    this.#sum += value;
  }

  /** The series as Prometheus wants it: each bucket including all below it, then sum and count. */
  values(name: string): HistogramValue[] {
    const sharedLabels = this.labels;
    let count = 0;
    const buckets = [...this.#upperBounds, '+Inf' as const].map((le, bucket) => {
      count += this.#counts[bucket]!;
      return { metricName: `${name}_bucket`, labels: { le }, sharedLabels, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: {}, sharedLabels, value: this.#sum },
      { metricName: `${name}_count`, labels: {}, sharedLabels, value: count },
    ];
  }
}

/** A histogram made of cells. `buckets` are upper bounds in rising order. */
export class CellHistogram {
  readonly name: string;
  readonly #help: string;
  readonly #buckets: readonly number[];
  readonly #cells: HistogramCell[] = [];

  constructor(registry: Registry, { name, help, buckets }: { name: string; help: string; buckets: readonly number[] }) {
    this.name = name;
    this.#help = help;
    this.#buckets = buckets;
    // A registry uses only a metric's name and `get`; the type demands prom-client's own classes.
    registry.registerMetric(this as unknown as Metric);
  }

  /** The series with these labels, to be kept by the caller: there must be only one cell for each. */
  cell(labels: Readonly<Record<string, string>> = {}): HistogramCell {
    const cell = new HistogramCell(labels, this.#buckets);
    this.#cells.push(cell);
    return cell;
  }

  /** What a registry turns into text at a scrape. */
  async getForPromString() {
    const values = this.#cells.flatMap((cell) => cell.values(this.name));
    return { name: this.name, help: this.#help, type: 'histogram', aggregator: 'sum', values };
  }

  /** The same for those who add up several processes, and know of no shared labels. */
  async get() {
    const { values, ...rest } = await this.getForPromString();
    const whole = values.map(({ labels, sharedLabels, ...value }) => ({
      ...value,
      labels: { ...labels, ...sharedLabels },
    }));
    return { ...rest, values: whole };
  }
}

/** Bucket bounds for durations from a millisecond to the ten minutes that a call may take, in seconds. */
export const latencySeconds = [
  0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];

/**
 * Remembers what was made for each label value. There must be few: routes, statuses, models and deployments of the catalog, never anything
 * chosen by a client.
 */
export function bound<Label, Cell>(make: (label: Label) => Cell): (label: Label) => Cell {
  const cells = new Map<Label, Cell>();
  return (label) => {
    let cell = cells.get(label);
    if (cell === undefined) {
      cell = make(label);
      cells.set(label, cell);
    }
    return cell;
  };
}
