import { Type } from 'typebox';
import { asCaller } from '../../../caller.ts';
import type { Routes } from '../../routes.ts';
import { jobJson } from './job-json.ts';

const params = Type.Object({ job_id: Type.String({ maxLength: 255 }) });
const json = 'application/json; charset=utf-8';

/** /api/v1/jobs/{job_id}: one of the caller's own jobs. */
export const jobRoutesById: Routes = (app, { jobs }) => {
  app.get(
    '/api/v1/jobs/:job_id',
    { config: { access: { surface: 'api', scope: 'jobs:read_own' } }, schema: { params } },
    async (request, reply) => {
      const { job } = await jobs.getJob({ jobId: request.params.job_id }, asCaller(request));
      return reply.header('content-type', json).send(jobJson(job!));
    },
  );

  app.post(
    '/api/v1/jobs/:job_id/cancel',
    { config: { access: { surface: 'api', scope: 'jobs:cancel_own' } }, schema: { params } },
    async (request, reply) => {
      const { job } = await jobs.cancelJob({ jobId: request.params.job_id }, asCaller(request));
      return reply.header('content-type', json).send(jobJson(job!));
    },
  );

  app.delete(
    '/api/v1/jobs/:job_id',
    { config: { access: { surface: 'session' } }, schema: { params } },
    async (request, reply) => {
      await jobs.deleteJob({ jobId: request.params.job_id }, asCaller(request));
      return reply.code(204).send();
    },
  );
};
