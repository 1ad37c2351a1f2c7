import cluster, { type Worker } from 'node:cluster';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { AggregatorRegistry, type MetricObject, type Registry } from 'prom-client';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';

/** Messages between the processes of WORKERS, each with the number of its request. */
type Message =
  /** To the first process: this worker was asked for the metrics of all. */
  | { metrics: 'wanted'; request: number }
  /** To a worker: asks for its metrics. */
  | { metrics: 'asked'; request: number }
  | { metrics: 'own'; request: number; values: MetricObject[] }
  /** To the worker that was asked, in Prometheus' format; absent if a process did not answer. */
  | { metrics: 'all'; request: number; text?: string };

type MetricsOfAll = { text(): Promise<string>; close(): void };

/**
 * In milliseconds. If a process is too busy to answer, the scrape fails and Prometheus asks again: sums without that process would seem to
 * fall.
 */
const answerMsMax = 2_000;

/** The metrics of this process or, with WORKERS, the sum over all processes: a scrape reaches any one of them. */
export function metricsOfAll(registry: Registry, logger: FailureLogger): MetricsOfAll {
  const read = metricReader(registry, logger);
  return cluster.isWorker ? inWorker(read) : inFirst(read);
}

function inWorker({ values }: MetricReader): MetricsOfAll {
  const waiting = new Waiting<string | undefined>();
  const send = (message: Message): void => void process.send!(message, nobodyThere);
  const listener = async (message: Partial<Message>): Promise<void> => {
    if (message.metrics === 'all') waiting.resolve(message.request!, message.text);
    if (message.metrics !== 'asked') return;
    send({ metrics: 'own', request: message.request!, values: await values() });
  };
  process.on('message', listener);
  return {
    async text() {
      const text = await waiting.answer((request) => send({ metrics: 'wanted', request }));
      if (text === undefined) throw tooBusy();
      return text;
    },
    close: () => void process.off('message', listener),
  };
}

function inFirst(read: MetricReader): MetricsOfAll {
  const waiting = new Waiting<MetricObject[]>();
  const lastByWorker = new Map<number, MetricObject[]>();
  let counted: MetricObject[] = [];
  const send = (worker: Worker, message: Message): void => void worker.send(message, nobodyThere);

  async function text(): Promise<string> {
    const workers = Object.values(cluster.workers ?? {}).filter((worker) => worker?.isConnected());
    if (workers.length === 0 && counted.length === 0) return read.text();
    const own = await read.values();
    await Promise.all(
      workers.map((worker) => waiting.answer((request) => send(worker!, { metrics: 'asked', request }))),
    );
    // Each worker is in exactly one of these, whenever it dies.
    return AggregatorRegistry.aggregate([own, ...lastByWorker.values(), counted]).metrics();
  }

  const listener = (worker: Worker, message: Partial<Message>): void => {
    if (message.metrics === 'own') {
      if (!worker.isDead()) lastByWorker.set(worker.id, message.values!);
      waiting.resolve(message.request!, message.values!);
    }
    if (message.metrics !== 'wanted') return;
    const { request } = message as { request: number };
    text().then(
      (all) => send(worker, { metrics: 'all', request, text: all }),
      () => send(worker, { metrics: 'all', request }),
    );
  };
  // To Prometheus a sum that falls is a counter that started anew, and the counts of all the others would be added once more.
  const keepCounts = (worker: Worker): void => {
    const values = lastByWorker.get(worker.id) ?? [];
    lastByWorker.delete(worker.id);
    counted = AggregatorRegistry.aggregate([counted, values.filter(isCount)]).getMetricsAsArray();
  };
  cluster.on('message', listener);
  cluster.on('exit', keepCounts);
  return {
    text,
    close() {
      cluster.off('message', listener);
      cluster.off('exit', keepCounts);
    },
  };
}

/** Counts stay when their process ends; gauges do not. prom-client's types have numbers for these words. */
const isCount = ({ type }: MetricObject): boolean => (type as unknown as string) !== 'gauge';

/** A process may die with a message on its way to it; without a listener that would end the sender. */
const nobodyThere = (): void => {};

/** Open requests by number, each waiting for its answer. */
class Waiting<Answer> {
  readonly #resolvers = new Map<number, (answer: Answer) => void>();
  #last = 0;

  /** @throws GatewayError OVERLOADED when no answer comes in time. */
  answer(ask: (request: number) => void): Promise<Answer> {
    const request = ++this.#last;
    return new Promise<Answer>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#resolvers.delete(request);
        reject(tooBusy());
      }, answerMsMax);
      this.#resolvers.set(request, (answer) => {
        clearTimeout(timer);
        this.#resolvers.delete(request);
        resolve(answer);
      });
      ask(request);
    });
  }

  resolve(request: number, answer: Answer): void {
    this.#resolvers.get(request)?.(answer);
  }
}

const tooBusy = () =>
  gatewayError(
    ErrorReason.OVERLOADED,
    'A process of this gateway is too busy to tell its metrics. Try again shortly.',
    {
      retryAfterMs: 1_000,
    },
  );

type MetricReader = {
  /** The same text as `registry.metrics()`. */
  text(): Promise<string>;
  /** The same values as `registry.getMetricsAsJSON()`. */
  values(): Promise<MetricObject[]>;
};

function metricReader(registry: Registry, logger: FailureLogger): MetricReader {
  const failures = new RepeatedFailures('reading metrics', logger, 0);
  /**
   * Reads each metric in its own turn of the event loop: reading all at once takes milliseconds at each scrape, which every call would wait
   * for. One that cannot be read, as when the disk fails that it looks at, is left out: the others are needed most then.
   */
  async function oneByOne<Value>(read: (name: string) => Promise<Value>): Promise<Value[]> {
    const values: Value[] = [];
    let failed = 0;
    for (const { name } of registry.getMetricsAsArray()) {
      try {
        values.push(await read(name));
      } catch (err) {
        failed += 1;
        failures.failed(err, `failed; ${name} is left out`);
      }
      await nextTurn();
    }
    if (failed === 0) failures.succeeded();
    return values;
  }
  return {
    async text() {
      const texts = await oneByOne((name) => registry.getSingleMetricAsString(name));
      return `${texts.join('\n\n')}\n`;
    },
    values: () => oneByOne((name) => registry.getSingleMetric(name)!.get()),
  };
}
