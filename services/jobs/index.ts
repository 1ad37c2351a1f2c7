import type { ServiceImpl } from '@connectrpc/connect';
import type { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { createReadTurns, readInTurn } from '#shared/rpc/read-turns.ts';
import type { JobsDeps } from './deps.ts';
import { adminListJobs } from './rpc/admin-list-jobs.ts';
import { cancelJob } from './rpc/cancel-job.ts';
import { deleteJob } from './rpc/delete-job.ts';
import { getJob } from './rpc/get-job.ts';
import { getJobStats } from './rpc/get-job-stats.ts';
import { listJobs } from './rpc/list-jobs.ts';
import { findSubmitted, submissionTurns, submit } from './rpc/submit.ts';

/** Background jobs, from their owners' point of view. start.ts makes the dependencies; workers/ runs the jobs. */
export const jobsService = (deps: JobsDeps): ServiceImpl<typeof JobsService> => {
  const inTurn = readInTurn(createReadTurns());
  const turns = submissionTurns();
  return {
    submit: submit(deps, turns),
    findSubmitted: findSubmitted(deps, turns),
    getJob: getJob(deps),
    listJobs: inTurn(listJobs(deps)),
    getJobStats: inTurn(getJobStats(deps)),
    cancelJob: cancelJob(deps),
    deleteJob: deleteJob(deps),

    adminListJobs: adminListJobs(deps),
  };
};
