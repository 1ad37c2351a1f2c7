import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { pathOf, scopeOf, takesForm } from '#shared/operations.ts';
import type { EdgeApp, RouteDeps } from '../app.ts';
import type { Upload } from '../http/uploads.ts';
import { jobSchema } from '../openai/job-json.ts';
import { answerInference } from './answer.ts';
import type { Content } from './call-schemas.ts';
import { answerWithJob, type InvokeBody, prefersJob } from './submit-job.ts';

/** The prefixes under which inference is served by the same handlers (service.md, Endpoints). */
export const inferencePrefixes = ['/v1', '/api/v1'] as const;

type InferenceRoute = {
  operation: Operation;
  /** How /openapi.json describes it. */
  summary: string;
  body: Content;
  answer: Content;
};

/** Registers an inference operation under both prefixes. */
export function inferenceRoute(
  app: EdgeApp,
  deps: RouteDeps,
  { operation, summary, body, answer }: InferenceRoute,
): void {
  const access = { surface: 'api', scope: scopeOf(operation) } as const;
  const bodyOf = takesForm(operation) ? formOf : jsonOf;
  const schema = {
    summary,
    callsModel: true,
    uncheckedBody: { content: body },
    response: { 200: { content: answer }, 202: jobSchema },
  };
  for (const prefix of inferencePrefixes) {
    const route = prefix + pathOf(operation);
    app.post(
      route,
      {
        config: { access, startsWork: true, admitAfterBody: true },
        ...(prefix === '/v1' && { schema }),
      },
      async (request, reply) => {
        const call = { operation, route, ...bodyOf(request.body) };
        return prefersJob(request)
          ? answerWithJob(deps, call, request, reply)
          : answerInference(deps, call, request, reply);
      },
    );
  }
}

const noBytes = new Uint8Array();

const jsonOf = (body: unknown): InvokeBody => ({
  body: body === undefined ? noBytes : withoutByteOrderMark(body as Uint8Array),
  contentType: 'application/json',
  bodyFile: '',
});

/** Editors on Windows put the mark before a file that is then sent; a parser may ignore it (RFC 8259 section 8.1). */
const withoutByteOrderMark = (body: Uint8Array): Uint8Array =>
  body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf ? body.subarray(3) : body;

/** A form was spooled to a file. */
function formOf(body: unknown): InvokeBody {
  if (body === undefined) {
    throw gatewayError(ErrorReason.UNSUPPORTED_CONTENT_TYPE, 'Send the audio file as `multipart/form-data`.');
  }
  const { path, contentType } = body as Upload;
  return { body: noBytes, contentType, bodyFile: path };
}
