import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { idFilter, nameFilter, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { adminJobJson, adminJobSchema, jobStatuses } from '../../../openai/job-json.ts';
import { jobFilterQuery } from '../jobs/collection.ts';

/** /api/v1/admin/jobs: the jobs of every organization, without their bodies and results. */
export const adminJobRoutes: Routes = (app, { jobs }) => {
  app.get(
    '/api/v1/admin/jobs',
    {
      config: operatorOnly,
      schema: {
        summary: 'List the jobs of all organizations',
        description: 'Newest first, without their requests and results.',
        response: { 200: pageOf(adminJobSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          ...jobFilterQuery,
          tenant_id: idFilter(),
          job_id: nameFilter('Only this job.'),
        }),
      },
    },
    async (request) => {
      const { page, limit, tenant_id: tenantId, job_id: jobId, status, model } = request.query;
      const answer = await jobs.adminListJobs(
        { page: { page, limit }, tenantId, jobId, status: jobStatuses.value(status), model },
        asCaller(request),
      );
      return { data: answer.jobs.map(adminJobJson), pagination: paginationJson(answer.pageInfo) };
    },
  );
};
