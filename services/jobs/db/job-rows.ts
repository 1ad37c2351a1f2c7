import { create, fromBinary } from '@bufbuild/protobuf';
import { ErrorDetailSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { type Job, JobSchema, JobStatus } from '#gen/modelgateway/jobs/v1/job_pb.ts';
import { MeteredUsageSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import { publicJobId } from '#shared/ids.ts';
import type { WholeMessage } from '#shared/whole-message.ts';

/** The columns of a job that its owner sees. */
export const jobColumns = `jobs.id, jobs.endpoint, jobs.operation, jobs.model, jobs.status, jobs.created_at, jobs.started_at,
  jobs.ended_at, jobs.expires_at, jobs.error, jobs.usage, jobs.result_content_type, jobs.metadata`;

export type JobRow = {
  id: string;
  endpoint: string;
  operation: Operation;
  model: string;
  status: JobStatus;
  created_at: Date;
  started_at: Date | null;
  ended_at: Date | null;
  expires_at: Date | null;
  error: Buffer | null;
  usage: Buffer | null;
  result_content_type: string | null;
  metadata: Record<string, string>;
};

/** A row as its owner sees it, without its result. */
export function jobMessage(row: JobRow): Job {
  const endedAs = (status: JobStatus) => (row.status === status ? timestampOrUnset(row.ended_at) : undefined);
  return create(JobSchema, {
    id: publicJobId(row.id),
    endpoint: row.endpoint,
    operation: row.operation,
    model: row.model,
    status: row.status,
    createdAt: timestampOrUnset(row.created_at),
    startedAt: timestampOrUnset(row.started_at),
    completedAt: endedAs(JobStatus.COMPLETED),
    failedAt: endedAs(JobStatus.FAILED),
    cancelledAt: endedAs(JobStatus.CANCELLED),
    expiresAt: timestampOrUnset(row.expires_at),
    error: row.error === null ? undefined : fromBinary(ErrorDetailSchema, row.error),
    usage: row.usage === null ? undefined : fromBinary(MeteredUsageSchema, row.usage),
    metadata: row.metadata,
  } satisfies Omit<WholeMessage<typeof JobSchema>, 'result' | 'resultLeftOutBytes'>);
}
