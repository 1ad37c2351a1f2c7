import { setTimeout as delay } from 'node:timers/promises';
import pLimit from 'p-limit';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { returnHold } from '../budget/return-hold.ts';
import { bodyKinds, largeBodiesAtOnce, readBody } from '../db/bodies.ts';
import { isLost, requeueJob, saveHold } from '../db/end-jobs.ts';
import { extendLeases, reclaimLapsed } from '../db/leases.ts';
import { leaseMs, returnTurn, type TakenJob, takeJobs } from '../db/take-jobs.ts';
import { clockShiftMs } from '../db/time.ts';
import type { Allowance } from '../domain/choose-lanes.ts';
import { ModelRoom } from '../domain/model-room.ts';
import { successEventId } from '../domain/success-event.ts';
import type { JobMetrics } from '../metrics.ts';
import { type CurrentCallersDeps, currentCaller } from './current-callers.ts';
import { createEndBatches, type EndBatches } from './end-batches.ts';
import { type JobInputs, type RunJobDeps, type RunOutcome, runJob } from './run-job.ts';

export type JobWorkerDeps = Omit<RunJobDeps, 'faults'> &
  CurrentCallersDeps & {
    database: ServiceDatabase;
    metrics: JobMetrics;
    /** No job with a large request begins while those of running ones take this much memory, in bytes. */
    bodiesBytesMax: number;
    clock: Clock;
    logger: Logger;
  };

type JobWorkerOptions = {
  /** The most jobs that run at the same time. */
  concurrency: number;
  bounds: Allowance['bounds'];
};

export const workerDefaults: JobWorkerOptions = { concurrency: 64, bounds: { perSubject: 32, perModel: 64 } };

/** How a job goes back that has made no attempt. */
const atOnce = { delayMs: 0, countsAsAttempt: false } as const;

const requeueRetryMs = 500;

/** The least time between two looks into the queue: everything that arrives or ends in between is handled together. */
const gatherMs = 20;

type Run = { job: TakenJob; leave: AbortController; done: Promise<void> };

/** Takes jobs from the queue and runs them, as many at once as its slots and its memory for requests allow. Any number of workers may share a queue. */
export class JobWorker {
  readonly id = uuidv7();
  readonly #deps: JobWorkerDeps & RunJobDeps;
  readonly #options: JobWorkerOptions;
  readonly #largeBodies = pLimit(largeBodiesAtOnce);
  readonly #ends: EndBatches;
  readonly #room = new ModelRoom();
  readonly #takings: RepeatedFailures;
  readonly #extensions: RepeatedFailures;
  readonly #reclaims: RepeatedFailures;
  readonly #runs = new Map<string, Run>();
  readonly #heartbeat: NodeJS.Timeout;
  #gathering: NodeJS.Timeout | null = null;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #taking: Promise<void> | null = null;
  /** What was cancelled while jobs were being taken, which may be among them. */
  readonly #cancelledMeanwhile = new Set<string>();
  #reclaiming: Promise<void> = Promise.resolve();
  /** Whether the queue may have a job for this worker. */
  #isDue = true;
  /** Whether jobs wait for a running one to end, as `takeJobs` tells. */
  #isBounded = false;
  #closing = false;

  constructor(deps: JobWorkerDeps, options: JobWorkerOptions) {
    // Logged at once, and never as over: the jobs that run do not say that those which could not can do so now.
    this.#deps = { ...deps, faults: new RepeatedFailures('beginning jobs', deps.logger, 0) };
    this.#options = options;
    this.#takings = new RepeatedFailures('taking jobs from the queue', deps.logger);
    // A lease outlasts two failures.
    this.#extensions = new RepeatedFailures('extending the leases of running jobs', deps.logger);
    this.#reclaims = new RepeatedFailures('reclaiming the jobs of lost workers', deps.logger);
    this.#ends = createEndBatches({ ...deps, shiftMs: this.#shiftMs, largeBodies: this.#largeBodies });
    this.#heartbeat = setInterval(() => void this.keepLeases(), leaseMs / 3);
    this.#takeSoon();
  }

  readonly #shiftMs = (): number => clockShiftMs(this.#deps.clock);

  get running(): number {
    return this.#runs.size;
  }

  /** A job may wait. */
  wake(): void {
    this.#isDue = true;
    this.#takeSoon();
  }

  /** Another worker's job has shown no sign of life for the length of its lease. */
  reclaim(): void {
    this.#reclaiming = this.#reclaiming
      .then(() => reclaimLapsed(this.#deps.database, this.#shiftMs()))
      .then((count) => {
        this.#reclaims.succeeded();
        if (count === 0) return;
        this.#deps.logger.warn({ count }, 'jobs of a worker that fell silent are back in the queue');
        this.wake();
      })
      .catch((err) => this.#reclaims.failed(err, 'failed; trying again'));
  }

  /** A job was cancelled: its upstream is aborted at once. */
  cancel(jobId: string): void {
    this.#runs.get(jobId)?.leave.abort();
    if (this.#taking !== null) this.#cancelledMeanwhile.add(jobId);
  }

  /** Extends the leases of its jobs, and leaves jobs that it no longer holds. */
  async keepLeases(): Promise<void> {
    const runs = [...this.#runs.values()];
    if (runs.length === 0) return;
    try {
      const kept = await extendLeases(
        this.#deps.database,
        runs.map(({ job }) => job),
        this.#shiftMs(),
      );
      for (const { job, leave } of runs) if (!kept.has(job.id)) leave.abort();
      this.#extensions.succeeded();
    } catch (err) {
      this.#extensions.failed(err, 'failed; without one, another worker takes them over');
    }
  }

  /** Notifications may have been missed: of jobs that wait, and of cancellations, also of jobs that are just being taken. */
  async catchUp(): Promise<void> {
    const taking = this.#taking;
    this.wake();
    await this.keepLeases();
    if (taking === null) return;
    await taking;
    await this.keepLeases();
  }

  /** Takes no more jobs, lets running ones go on for this long, and returns the rest to other workers. */
  async close(drainMs: number): Promise<void> {
    this.#closing = true;
    if (this.#gathering !== null) clearTimeout(this.#gathering);
    await this.#taking;
    const runs = [...this.#runs.values()];
    const ended = Promise.all(runs.map(({ done }) => done));
    const isLate = await Promise.race([ended.then(() => false), delay(drainMs, true, { ref: false })]);
    if (isLate) {
      for (const { leave } of runs) leave.abort();
      this.#ends.giveUp();
    }
    await ended;
    clearInterval(this.#heartbeat);
    await this.#reclaiming;
  }

  get #freeBytes(): number {
    const held = this.#runs.values().reduce((bytes, { job }) => bytes + job.requestBytes, 0);
    return this.#deps.bodiesBytesMax - held;
  }

  #takeSoon(): void {
    const slots = this.#options.concurrency - this.#runs.size;
    if (this.#closing || !this.#isDue || slots === 0 || this.#taking !== null || this.#gathering !== null) return;
    const waitMs = this.#lookedMs + gatherMs - performance.now();
    if (waitMs <= 0) {
      this.#take(slots);
      return;
    }
    this.#gathering = setTimeout(() => {
      this.#gathering = null;
      this.#takeSoon();
    }, waitMs);
  }

  #take(slots: number): void {
    this.#isDue = false;
    this.#lookedMs = performance.now();
    const { database, random } = this.#deps;
    this.#taking = takeJobs(database, {
      workerId: this.id,
      slots,
      bounds: this.#options.bounds,
      modelSlots: this.#room.slots(this.#lookedMs),
      requestBytes: this.#freeBytes,
      random,
      shiftMs: this.#shiftMs(),
    })
      .then(({ jobs, isMore, isBounded }) => {
        this.#start(jobs.filter(({ id }) => !this.#cancelledMeanwhile.has(id)));
        this.#isDue ||= isMore;
        this.#isBounded ||= isBounded;
        this.#takings.succeeded();
      })
      .catch((err) => this.#takings.failed(err, 'failed; trying again'))
      .finally(() => {
        this.#taking = null;
        this.#cancelledMeanwhile.clear();
        this.#takeSoon();
      });
  }

  #start(jobs: readonly TakenJob[]): void {
    // Each caller is looked up once for all jobs taken together.
    const callers = new Map<string, JobInputs['caller']>();
    for (const job of jobs) {
      const callerId = `${job.tenantId} ${job.subjectId}`;
      const caller = callers.get(callerId) ?? currentCaller(this.#deps, job.caller);
      callers.set(callerId, caller);
      caller.catch(() => {});
      // If a job came back to this same worker, its former run ends first.
      const former = this.#runs.get(job.id);
      former?.leave.abort();
      const leave = new AbortController();
      const readLarge = () => readBody(this.#deps.database.pool, job, bodyKinds.request, leave.signal);
      const body = async () => job.request ?? this.#largeBodies(readLarge);
      const run: Run = { job, leave, done: Promise.resolve(former?.done) };
      this.#runs.set(job.id, run);
      run.done = run.done
        .then(() =>
          this.#run(run, {
            caller,
            body,
            saveHold: (hold) => saveHold(this.#deps.database, job, hold, this.#shiftMs()),
          }),
        )
        .catch((err) =>
          this.#deps.logger.error(
            { err, job: job.id },
            'a job could not be finished here and is left to another worker',
          ),
        )
        .finally(() => {
          if (this.#runs.get(job.id) === run) this.#runs.delete(job.id);
          // A look that is under way may still have counted this job.
          this.#isDue ||= this.#isBounded || this.#taking !== null;
          this.#isBounded = false;
          this.#takeSoon();
        });
    }
  }

  async #run(run: Run, inputs: JobInputs): Promise<void> {
    const { job, leave } = run;
    const outcome = await runJob(this.#deps, job, inputs, leave.signal);
    if (outcome.kind === 'refused') this.#room.refused(job.model, performance.now());
    // Otherwise nothing was called.
    else if (outcome.kind !== 'again' || outcome.countsAsAttempt) {
      this.#room.passed(job.model);
      if (!job.hasStartedBefore) this.#deps.metrics.started(job.startedMs - job.createdMs);
    }
    await this.#conclude(run, outcome);
  }

  async #conclude(run: Run, outcome: RunOutcome): Promise<void> {
    const { database, metrics, logger } = this.#deps;
    const { job } = run;
    switch (outcome.kind) {
      case 'ended': {
        const wasEnded = await this.#ends.end(job, outcome.ending);
        if (!wasEnded) return;
        metrics.ended(outcome.ending.status === JobStatus.COMPLETED ? 'completed' : 'failed');
        if (outcome.unused === undefined) return;
        await returnHold(this.#deps, {
          ...job,
          hold: outcome.unused,
          lostEventId: job.wasLost || isLost(outcome.ending) ? successEventId(job.id, job.startedMs) : null,
        });
        return;
      }
      case 'again': {
        if (outcome.countsAsAttempt) metrics.retried();
        const hasStarted = outcome.countsAsAttempt || job.hasStartedBefore;
        await this.#requeue(run, { ...outcome, hasStarted });
        return;
      }
      case 'refused':
        // Without its turn, its organization waits a little longer.
        await returnTurn(database, job.tenantId).catch((err) =>
          logger.debug({ err, job: job.id }, 'the turn of a job that did not run could not be returned'),
        );
        await this.#requeue(run, { ...atOnce, hasStarted: job.hasStartedBefore });
        return;
      case 'left':
        // The process ends: another worker may continue at once. Jobs that this worker no longer holds are not changed.
        if (this.#closing) await this.#requeue(run, { ...atOnce, hasStarted: true, wasLost: true });
        return;
      default:
        outcome satisfies never;
    }
  }

  /** Repeated while the database is away, until the run is left: with its lease alone the job would wait for longer, and lose an attempt. */
  async #requeue({ job, leave: { signal } }: Run, next: Parameters<typeof requeueJob>[2]): Promise<void> {
    for (;;) {
      try {
        return await requeueJob(this.#deps.database, job, next, this.#shiftMs());
      } catch (error) {
        if (signal.aborted || !hasReason(error, ErrorReason.OVERLOADED)) throw error;
        await delay(requeueRetryMs, undefined, { signal }).catch(() => {});
      }
    }
  }
}
