import { Type } from 'typebox';
import { JobOrder } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { operationsByPath } from '#shared/operations.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { nameFilter, pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { memberText } from '../../../http/member-text.ts';
import { orNull } from '../../../http/nullable.ts';
import { meteredEndpoint } from '../../../inference/endpoint.ts';
import { announcingErrors } from '../../../inference/errors.ts';
import { answerWithJob } from '../../../inference/submit-job.ts';
import { jobStatuses, listedJobJson, listedJobSchema, writtenJobSchema } from '../../../openai/job-json.ts';

/** Filters of lists of jobs. */
export const jobFilterQuery = {
  status: Type.Optional(jobStatuses.schema),
  model: nameFilter(),
};

/** Endpoints whose requests are JSON, by their paths after the prefix. */
const operations = operationsByPath('json');
const endpoints = [...operations.keys()].map((path) => `/v1${path}`);

/** The largest body, in bytes; smaller than that of an inference call, since this one is parsed in one go, which blocks everything else. */
const bodyBytesMax = 4 * 1024 * 1024;

/** GET /api/v1/jobs answers this API's pages and the SDK's CursorPage at once. POST /api/v1/jobs submits from a session. */
export const jobCollectionRoutes: Routes = (app, deps) => {
  app.get(
    '/api/v1/jobs',
    {
      config: { access: { surface: 'api', scope: 'jobs:read_own' } },
      schema: {
        summary: 'List jobs',
        description: 'Those of the caller, newest first unless `order` says otherwise, without their results.',
        response: {
          200: Type.Object({
            object: Type.Literal('list'),
            ...pageOf(listedJobSchema).properties,
            first_id: orNull(Type.String()),
            last_id: orNull(Type.String()),
            has_more: Type.Boolean(),
          }),
        },
        querystring: Type.Object({
          ...pageQuerySchema,
          ...jobFilterQuery,
          endpoint: nameFilter('With either prefix, such as `/v1/embeddings`.'),
          order: Type.Optional(
            Type.Enum(['asc', 'desc'], { description: 'By time of submission; newest first by default.' }),
          ),
          after: Type.Optional(
            Type.String({
              maxLength: 255,
              description: 'The id of the last job on the previous page; replaces `page`.',
            }),
          ),
        }),
      },
    },
    async (request) => {
      const { page, limit, status, model, endpoint, order, after } = request.query;
      const answer = await deps.jobs.listJobs(
        {
          page: { page, limit },
          status: jobStatuses.value(status),
          model,
          endpoint: meteredEndpoint(endpoint ?? ''),
          order: order === 'asc' ? JobOrder.ASC : JobOrder.DESC,
          after,
        },
        asCaller(request),
      );
      return {
        object: 'list' as const,
        data: answer.jobs.map(listedJobJson),
        first_id: answer.jobs[0]?.id ?? null,
        last_id: answer.jobs.at(-1)?.id ?? null,
        has_more: answer.hasMore,
        pagination: paginationJson(answer.pageInfo),
      };
    },
  );

  app.post(
    '/api/v1/jobs',
    {
      config: { access: { surface: 'session' }, startsWork: true },
      bodyLimit: bodyBytesMax,
      // The body itself may be what was refused.
      errorHandler: announcingErrors(
        deps,
        ({ body }) => (body as { body?: { model?: unknown } | null } | null | undefined)?.body?.model,
      ),
      schema: {
        summary: 'Submit a job',
        description:
          'Runs an operation in the background. `Location` is the path of the job, whose result is kept for 24 hours. At 10,000 waiting jobs, 5 GiB of their requests or 5 GiB of kept results, the organization gets 429 with `Retry-After`.',
        idempotent: true,
        callsModel: true,
        response: { 202: writtenJobSchema },
        body: onlyFields({
          endpoint: Type.String({
            maxLength: 255,
            description: `An operation that takes JSON: one of \`${endpoints.join('`, `')}\`.`,
          }),
          body: Type.Record(Type.String(), Type.Unknown(), { description: 'The request body of that operation.' }),
        }),
      },
    },
    async (request, reply) => {
      const path = /^(?:\/api)?\/v1(\/.*)$/.exec(request.body.endpoint)?.[1] ?? '';
      const operation = operations.get(path);
      if (operation === undefined) {
        throw invalidRequest('endpoint', `\`endpoint\` must be one of ${endpoints.join(', ')}.`, 'invalid_value');
      }
      const call = {
        operation,
        // The body exactly as it was sent: serializing it again would round its numbers.
        body: Buffer.from(memberText(request.bodyText, 'body')!),
        contentType: 'application/json',
        bodyFile: '',
      };
      return answerWithJob(deps, call, request, reply);
    },
  );
};
