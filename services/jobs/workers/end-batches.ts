import { setTimeout } from 'node:timers/promises';
import pLimit, { type LimitFunction } from 'p-limit';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { isAway } from '#shared/db/errors.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';
import { deletedBytesMax, inRowBytesMax, largeBodiesAtOnce } from '../db/bodies.ts';
import { type Ending, endJobs, endLargeJob } from '../db/end-jobs.ts';
import type { HeldJob, TakenJob } from '../db/take-jobs.ts';

type EndedJob = HeldJob & Pick<TakenJob, 'requestBytes'>;
type Waiting = { job: EndedJob; ending: Ending; done(wasEnded: boolean): void };

const batchMax = 200;
/** How long an ended job waits for others, in milliseconds: jobs taken together often end together. */
const gatherMs = 5;
const retryMs = 500;
/** After this many failures of a database that is there but busy the results are given up: the leases have lapsed, and the jobs run again. */
const busyMax = 60;

export type EndBatches = {
  /** Ends a job; resolves with false when the worker no longer held it, or it could not be ended. */
  end(job: EndedJob, ending: Ending): Promise<boolean>;
  /** The worker stops: what the database does not take now is given up, and those jobs run again. */
  giveUp(): void;
};

/** Ends jobs together: one that ends shortly after another, or while a statement is under way, goes with the next. */
export function createEndBatches(deps: {
  database: Pick<ServiceDatabase, 'pool' | 'query'>;
  shiftMs(): number;
  logger: FailureLogger;
  /** Limits how many large results are stored at once, with whatever else it limits. */
  largeBodies?: LimitFunction;
  /** In milliseconds. */
  delay?(ms: number, value: undefined, options: { signal: AbortSignal }): Promise<unknown>;
}): EndBatches {
  const { database, shiftMs, logger, largeBodies = pLimit(largeBodiesAtOnce), delay = setTimeout } = deps;
  const failures = new RepeatedFailures('storing the results of ended jobs', logger);
  const stopping = new AbortController();
  const { signal } = stopping;
  const waiting: Waiting[] = [];
  let isWriting = false;

  async function write(): Promise<void> {
    isWriting = true;
    while (waiting.length > 0) {
      await delay(gatherMs, undefined, { signal }).catch(() => {});
      await writeBatch(nextBatch());
    }
    isWriting = false;
  }

  /** Their requests are deleted with them. */
  function nextBatch(): Waiting[] {
    let bytes = 0;
    const count = waiting.findIndex(({ job }, place) => {
      bytes += job.requestBytes;
      return place === batchMax || (place > 0 && bytes > deletedBytesMax);
    });
    return waiting.splice(0, count === -1 ? waiting.length : count);
  }

  /**
   * Tells each job's worker whether it was ended. If the batch fails, each job is written alone, so that a bad one does not hold up others.
   */
  async function writeBatch(batch: readonly Waiting[]): Promise<void> {
    const ended = await persistently(() => endJobs(database, batch, shiftMs()));
    if (ended === null && batch.length > 1 && !signal.aborted) for (const one of batch) await writeBatch([one]);
    else for (const { job, done } of batch) done(ended?.has(job.id) ?? false);
  }

  /** Null when the work cannot be done. Only a database that is away or busy is waited for: anything else would fail again. */
  async function persistently<Result>(work: () => Promise<Result>): Promise<Result | null> {
    let busy = 0;
    for (let tries = 1; ; tries += 1) {
      try {
        const result = await work();
        failures.succeeded();
        return result;
      } catch (err) {
        if (!isAway(err)) busy += 1;
        const mayPass = hasReason(err, ErrorReason.OVERLOADED) && busy < busyMax;
        if (!mayPass || signal.aborted) {
          logger.warn({ err, tries }, 'the results of ended jobs could not be stored');
          return null;
        }
        failures.failed(err, 'failed; trying again');
        await delay(retryMs, undefined, { signal }).catch(() => {});
      }
    }
  }

  return {
    end(job, ending) {
      if (ending.status === JobStatus.COMPLETED && ending.body.byteLength > inRowBytesMax) {
        const write = () => persistently(() => endLargeJob(database, job, ending, shiftMs()));
        return largeBodies(write).then((wasEnded) => wasEnded ?? false);
      }
      return new Promise((done) => {
        waiting.push({ job, ending, done });
        if (!isWriting) void write();
      });
    },
    giveUp: () => stopping.abort(),
  };
}
