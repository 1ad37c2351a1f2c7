import { toBinary } from '@bufbuild/protobuf';
import { JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import type { SubmitRequest } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { type JobHold, JobHoldSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { endpointOf } from '#shared/operations.ts';
import { type Caller, CallerSchema } from '#shared/rpc/caller.ts';
import { newHoldMs } from '../budget/holds.ts';
import type { JobsDeps } from '../deps.ts';
import { keptBytesMax, tooManyJobs, waitingBytesMax, waitingJobsMax } from '../domain/quotas.ts';
import { bodyKinds, inRowBytesMax, writeBody } from './bodies.ts';
import type { JobRow } from './job-rows.ts';
import { presentSql } from './time.ts';

/** By this long after its submission a job has ended, one way or another. */
const deadlineHours = 24;

type NewJob = {
  id: string;
  subjectId: string;
  caller: Caller;
  request: SubmitRequest;
  requestHash: Buffer | null;
  held: JobHold;
};

/**
 * Queues a job with its request, at once available to any worker. Rejects with the violation of jobs_by_idempotency_key when the key was
 * used in the meantime, with RATE_LIMITED when the organization has as many jobs as it may, and with the signal's reason when nobody is
 * waiting any more when its turn comes.
 */
export async function insertJob(
  { database, largeWrites, seenRoom }: Pick<JobsDeps, 'database' | 'largeWrites' | 'seenRoom'>,
  job: NewJob,
  shiftMs: number,
  signal: AbortSignal,
): Promise<JobRow> {
  const { caller, request } = job;
  const isSmall = request.body.byteLength <= inRowBytesMax;
  const isRoomSeen = seenRoom.has(caller.tenantId);
  const statement = {
    name: 'jobs-insert',
    text: insert,
    values: [
      caller.tenantId,
      job.id,
      caller.userId,
      job.subjectId,
      Buffer.from(toBinary(CallerSchema, caller)),
      request.operation,
      endpointOf(request.operation),
      request.model,
      request.contentType,
      request.body.byteLength,
      JSON.stringify(request.metadata),
      request.idempotencyKey === '' ? null : request.idempotencyKey,
      job.requestHash,
      request.costMaxNanoUsd,
      request.costMinNanoUsd,
      Buffer.from(toBinary(JobHoldSchema, job.held)),
      job.held.leases.length === 0 ? null : newHoldMs,
      shiftMs,
      isSmall ? Buffer.from(request.body) : null,
      isRoomSeen,
    ],
  };
  const queue = async (sql: Sql): Promise<Date> => {
    const { rows } = await sql.query<Pick<JobRow, 'created_at'>>(statement);
    const [queued] = rows;
    if (queued === undefined) throw tooManyJobs();
    if (!isRoomSeen) seenRoom.add(caller.tenantId);
    return queued.created_at;
  };
  if (isSmall) return queuedRow(job, await queue(database.pool));
  return largeWrites(() => {
    signal.throwIfAborted();
    return sqlTransaction(database, async (sql) => {
      const createdAt = await queue(sql);
      await writeBody(sql, { tenantId: caller.tenantId, id: job.id }, bodyKinds.request, request.body);
      return queuedRow(job, createdAt);
    });
  });
}

/** The row as it now is. Only the time is read back, since it is the database's. */
const queuedRow = ({ id, request }: NewJob, createdAt: Date): JobRow => ({
  id,
  endpoint: endpointOf(request.operation),
  operation: request.operation,
  model: request.model,
  status: JobStatus.QUEUED,
  created_at: createdAt,
  started_at: null,
  ended_at: null,
  expires_at: null,
  error: null,
  usage: null,
  result_content_type: null,
  metadata: request.metadata,
});

/**
 * Beyond the quotas this queues nothing and returns no row; either way the submission is no longer under way. $20: whether the organization
 * is known to have room in its queue.
 */
const insert = `
  with submitted as (
    delete from submissions_under_way where tenant_id = $1 and subject_id = $4 and idempotency_key = $12 and job_id = $2
  )
  insert into jobs (tenant_id, id, user_id, subject_id, caller, operation, endpoint, model, content_type, body_bytes,
    metadata, idempotency_key, request_hash, cost_max_nano_usd, cost_min_nano_usd, hold, hold_expires_at, status,
    created_at, available_at, deadline_at, request)
  select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16,
    present.at + $17::float8 * interval '1 millisecond', ${JobStatus.QUEUED}, present.at, '-infinity',
    present.at + interval '${deadlineHours} hours', $19
  from (select ${presentSql(18)} as at) as present
  where ($20 or (
      select count(*) < ${waitingJobsMax} and coalesce(sum(body_bytes), 0) < ${waitingBytesMax}
      from (
        select body_bytes from jobs where tenant_id = $1 and status = ${JobStatus.QUEUED} limit ${waitingJobsMax}
      ) as waiting
    ))
    and not exists (select from kept_results where tenant_id = $1 and bytes >= ${keptBytesMax})
  returning created_at`;
