import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { readAtScrape } from '#shared/read-at-scrape.ts';
import type { FailureLogger } from '#shared/repeated-failures.ts';

type JobOutcome = 'completed' | 'failed' | 'cancelled';

/** What /metrics shows about jobs. */
export type JobMetrics = {
  ended(outcome: JobOutcome): void;
  /** A job started for the first time, this long after its submission. */
  started(waitedMs: number): void;
  /** An attempt failed and will be repeated. */
  retried(): void;
};

const waitSeconds = [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1_800, 7_200, 43_200];

/** Registers the metrics of jobs, or finds them if another part of the process has. */
export function createJobMetrics(registry: Registry): JobMetrics {
  const once = <Metric>(name: string, make: () => Metric): Metric =>
    (registry.getSingleMetric(name) as Metric | undefined) ?? make();
  const registers = [registry];
  const outcomes = once('gateway_jobs_ended_total', () => {
    const counter = new Counter({
      name: 'gateway_jobs_ended_total',
      help: 'Background jobs ended, by outcome.',
      labelNames: ['outcome'] as const,
      registers,
    });
    // Prometheus sees no increase in a series that begins with it.
    for (const outcome of ['completed', 'failed', 'cancelled'] satisfies JobOutcome[]) counter.inc({ outcome }, 0);
    return counter;
  });
  const wait = once('gateway_jobs_wait_seconds', () => {
    return new Histogram({
      name: 'gateway_jobs_wait_seconds',
      help: 'Time from the submission of a background job to its first start.',
      buckets: waitSeconds,
      registers,
    });
  });
  const retries = once('gateway_jobs_retries_total', () => {
    return new Counter({
      name: 'gateway_jobs_retries_total',
      help: 'Failed attempts of background jobs that are retried.',
      registers,
    });
  });
  return {
    ended: (outcome) => outcomes.inc({ outcome }),
    started: (waitedMs) => wait.observe(Math.max(0, waitedMs) / 1000),
    retried: () => retries.inc(),
  };
}

/** Shows how many jobs wait and run, and how long the first has been due; read at each scrape of /metrics, absent while they cannot be. */
export function showQueue(registry: Registry, database: Pick<ServiceDatabase, 'query'>, logger: FailureLogger): void {
  const forget = (): void => {
    depth.reset();
    age.remove();
  };
  const collect = readAtScrape('counting the jobs', logger, {
    async read() {
      const { rows } = await database.query<{ queued: bigint; running: bigint; oldest_seconds: number }>({
        name: 'jobs-depth',
        // Each status apart: both have an index of their own, and one condition for the two would read all jobs, ended ones included.
        text: `select count(*) as queued, (select count(*) from jobs where status = ${JobStatus.IN_PROGRESS}) as running,
            -- A job that was not tried yet is available since ever.
            coalesce(extract(epoch from now() - min(greatest(available_at, created_at))), 0)::float8 as oldest_seconds
          from jobs where status = ${JobStatus.QUEUED}`,
        values: [],
      });
      const { queued, running, oldest_seconds: oldestSeconds } = rows[0]!;
      depth.set({ status: 'queued' }, Number(queued));
      depth.set({ status: 'in_progress' }, Number(running));
      age.set(Math.max(0, oldestSeconds));
    },
    forget,
  });
  const depth = new Gauge({
    name: 'gateway_jobs',
    help: 'Background jobs that have not ended, by status.',
    labelNames: ['status'],
    registers: [registry],
    collect,
  });
  const age = new Gauge({
    name: 'gateway_jobs_oldest_queued_seconds',
    help: 'How long the oldest waiting background job has waited since it could run, or run again; 0 when none could.',
    registers: [registry],
    // Joins the reading above.
    collect,
  });
  // Without labels it would begin at 0.
  forget();
}
