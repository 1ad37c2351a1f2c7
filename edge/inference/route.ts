import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { Scope } from '#shared/scopes.ts';
import type { EdgeApp, RouteDeps } from '../app.ts';
import type { Upload } from '../http/uploads.ts';
import { jobSchema } from '../openai/job-json.ts';
import { answerInference } from './answer.ts';
import type { Content } from './call-schemas.ts';
import { endpointOf } from './endpoint.ts';
import { answerWithJob, type InvokeBody, prefersJob } from './submit-job.ts';

/** The prefixes under which inference is served by the same handlers (service.md, Endpoints). */
export const inferencePrefixes = ['/v1', '/api/v1'] as const;

const noBytes = new Uint8Array();

type InferenceRoute = {
  path: string;
  operation: Operation;
  scope: Scope;
  /** How /openapi.json describes it. */
  summary: string;
  body: Content;
  answer: Content;
};

/** Registers an inference operation with a JSON body under both prefixes. */
export const jsonInferenceRoute = (app: EdgeApp, deps: RouteDeps, route: InferenceRoute): void =>
  inferenceRoute(app, deps, route, (body) => ({
    body: (body as Uint8Array | undefined) ?? noBytes,
    contentType: 'application/json',
    bodyFile: '',
  }));

/** Registers an inference operation with a form, which was spooled to a file, under both prefixes. */
export const formInferenceRoute = (app: EdgeApp, deps: RouteDeps, route: InferenceRoute): void =>
  inferenceRoute(app, deps, route, (body) => {
    if (body === undefined) {
      throw gatewayError(ErrorReason.UNSUPPORTED_CONTENT_TYPE, 'Send the audio file as `multipart/form-data`.');
    }
    const { path, contentType } = body as Upload;
    return { body: noBytes, contentType, bodyFile: path };
  });

function inferenceRoute(
  app: EdgeApp,
  deps: RouteDeps,
  { path, operation, scope, summary, body, answer }: InferenceRoute,
  bodyOf: (body: unknown) => InvokeBody,
): void {
  const schema = {
    summary,
    uncheckedBody: { content: body },
    response: { 200: { content: answer }, 202: jobSchema },
  };
  for (const prefix of inferencePrefixes) {
    const route = prefix + path;
    const endpoint = endpointOf(route);
    app.post(
      route,
      {
        config: { access: { surface: 'api', scope }, startsWork: true, admitAfterBody: true },
        ...(prefix === '/v1' && { schema }),
      },
      async (request, reply) => {
        const { body, contentType, bodyFile } = bodyOf(request.body);
        const call = { operation, route, endpoint, body, contentType, bodyFile };
        return prefersJob(request)
          ? answerWithJob(deps, call, request, reply)
          : answerInference(deps, call, request, reply);
      },
    );
  }
}
