import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asCaller, asCallerWithJob } from '../../../caller.ts';
import { noBody } from '../../../http/json.ts';
import { jobJson, writtenJobSchema } from '../../../openai/job-json.ts';

const params = Type.Object({ job_id: Type.String({ maxLength: 255 }) });
const json = 'application/json; charset=utf-8';

/** /api/v1/jobs/{job_id}: one of the caller's own jobs. */
export const jobRoutesById: Routes = (app, { jobs }) => {
  app.get(
    '/api/v1/jobs/:job_id',
    {
      config: { access: { surface: 'api', scope: 'jobs:read_own' } },
      schema: { summary: 'Get a job', params, response: { 200: writtenJobSchema } },
    },
    async (request, reply) => {
      const { job } = await jobs.getJob({ jobId: request.params.job_id }, asCallerWithJob(request));
      return reply.header('content-type', json).send(jobJson(job!));
    },
  );

  app.post(
    '/api/v1/jobs/:job_id/cancel',
    {
      config: { access: { surface: 'api', scope: 'jobs:cancel_own' } },
      schema: {
        summary: 'Cancel a job',
        description: 'A job that has ended is answered as it is.',
        params,
        response: { 200: writtenJobSchema },
      },
    },
    async (request, reply) => {
      const { job } = await jobs.cancelJob({ jobId: request.params.job_id }, asCallerWithJob(request));
      return reply.header('content-type', json).send(jobJson(job!));
    },
  );

  app.delete(
    '/api/v1/jobs/:job_id',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Delete a job',
        description: 'It must have ended.',
        params,
        response: { 204: noBody('The job and its result are gone.') },
      },
    },
    async (request, reply) => {
      await jobs.deleteJob({ jobId: request.params.job_id }, asCaller(request));
      return reply.code(204).send();
    },
  );
};
