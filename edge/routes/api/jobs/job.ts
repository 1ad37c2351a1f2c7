import { Type } from 'typebox';
import { notFound } from '#shared/errors.ts';
import { scopeBit } from '#shared/scopes.ts';
import type { Routes } from '../../../app.ts';
import { asCaller, asCallerWithJob } from '../../../caller.ts';
import { noBody } from '../../../http/json.ts';
import { resultBytesMax, sendJob } from '../../../inference/send-job.ts';
import { writtenJobSchema } from '../../../openai/job-json.ts';

const params = Type.Object({ job_id: Type.String() });

/** A job's id from the path. Jobs knows which ones there can be, but takes none that is longer. */
function jobIdInPath({ job_id: id }: Type.Static<typeof params>): string {
  if (id.length > 255) throw notFound('job');
  return id;
}

/** /api/v1/jobs/{job_id}: one of the caller's own jobs. */
export const jobRoutesById: Routes = (app, deps) => {
  const { jobs } = deps;
  app.get(
    '/api/v1/jobs/:job_id',
    {
      config: { access: { surface: 'api', scope: 'jobs:read_own' } },
      schema: {
        summary: 'Get a job',
        description:
          'While too many results larger than 64 KiB are being read, further ones get 503 with `Retry-After`.',
        params,
        response: { 200: writtenJobSchema },
      },
    },
    async (request, reply) => {
      const asked = { jobId: jobIdInPath(request.params), resultBytesMax };
      const { job } = await jobs.getJob(asked, asCallerWithJob(request));
      return sendJob(deps, job!, request, reply);
    },
  );

  app.post(
    '/api/v1/jobs/:job_id/cancel',
    {
      config: { access: { surface: 'api', scope: 'jobs:cancel_own' } },
      schema: {
        summary: 'Cancel a job',
        description:
          'A job that has already ended is returned unchanged. Its `result` is null for a key without `jobs:read_own`.',
        params,
        response: { 200: writtenJobSchema },
      },
    },
    async (request, reply) => {
      const asked = { jobId: jobIdInPath(request.params), resultBytesMax };
      const { job } = await jobs.cancelJob(asked, asCallerWithJob(request));
      const principal = request.principal!;
      const mayRead = principal.kind === 'session' || (principal.scopeBits & scopeBit('jobs:read_own')) !== 0;
      return sendJob(deps, mayRead ? job! : { ...job!, result: undefined, resultLeftOutBytes: 0n }, request, reply);
    },
  );

  app.delete(
    '/api/v1/jobs/:job_id',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Delete a job',
        description:
          'Only possible once the job has ended; 503 while the charge for an answer that nobody gets has still to be given back.',
        params,
        response: { 204: noBody('The job and its result are deleted.') },
      },
    },
    async (request, reply) => {
      await jobs.deleteJob({ jobId: jobIdInPath(request.params) }, asCaller(request));
      return reply.code(204).send();
    },
  );
};
