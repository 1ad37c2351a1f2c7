import { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { statusOf } from '#shared/error-table.ts';
import {
  ErrorReason,
  GatewayError,
  gatewayError,
  internalError,
  invalidRequest,
  invalidValue,
} from '#shared/errors.ts';
import { operationsByPath } from '#shared/operations.ts';
import { errorBody, retryHeaders } from '../openai/errors.ts';
import { isPortalPath, type SendFile } from '../portal/serve.ts';
import { lingering } from './lingering.ts';

/**
 * Installs the one place where failures become responses. Whatever is not a GatewayError becomes a bare 500 and a full log line. If the
 * portal's page is given, a browser that asks for an unknown address gets it: the portal's own router knows more addresses.
 */
export function installErrors(app: FastifyInstance, sendPage?: SendFile): void {
  app.setErrorHandler((thrown: FastifyError, request, reply) => sendError(toGatewayError(thrown), request, reply));
  app.setNotFoundHandler((request, reply) => {
    if (sendPage !== undefined && isPortalPath(request)) return sendPage(request, reply);
    return sendError(unknownUrl(request), request, reply);
  });
}

/** Answers with an error, and logs it when it is the gateway's own fault. */
export function sendError(error: GatewayError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const status = statusOf(error);
  logFailure(error, status, request);
  const headers = retryHeaders(error);
  if (status === 401) headers['www-authenticate'] = 'Bearer';
  const body = JSON.stringify(errorBody(error));
  reply.code(status).headers(headers).header('content-type', 'application/json; charset=utf-8');
  // The client may want no more of the connection, or Fastify closes it after a body that it did not read to its end.
  const closes = !reply.raw.shouldKeepAlive || reply.getHeader('connection') === 'close';
  const isRead = request.raw.complete || request.raw.readableEnded;
  if (!closes || isRead) return reply.send(body);
  return reply.header('content-length', Buffer.byteLength(body)).send(Readable.from(lingering(body, request.raw)));
}

/** Logs a failure: in full when it is the gateway's own fault, in brief at debug level when it is the client's. */
export function logFailure(error: GatewayError, status: number, request: FastifyRequest): void {
  const fields = { requestId: request.id, status, internal: error.details.internal };
  const isOurs =
    error.reason === ErrorReason.UNAUTHENTICATED_SERVICE ||
    (status >= 500 && status !== 503 && error.reason !== ErrorReason.UNSUPPORTED_HTTP);
  if (isOurs) request.log.error({ ...fields, err: error.cause ?? error }, error.message);
  else request.log.debug(fields, error.message);
}

function unknownUrl(request: FastifyRequest): GatewayError {
  const path = request.url.split('?', 1)[0]!;
  const meant = meantAddress(request.method, path);
  const hint = meant === undefined ? '' : ` Use ${printable(meant)} instead.`;
  return gatewayError(ErrorReason.UNKNOWN_URL, `Unknown request URL: ${request.method} ${printable(path)}.${hint}`);
}

const operation = ['/models', ...operationsByPath('json', 'form').keys()].join('|');
/**
 * The path of an operation, misspelt. The client's base URL lacks its /v1, has it twice, names an operation itself, or ends in a slash. Or
 * the path has the model in it, whose name may be empty: so do clients for Azure, and those from before OpenAI dropped /engines.
 */
const misplacedOperation = new RegExp(
  `^(?:/api|/openai)?(?:/v1)*(?:/(?:deployments|engines)(?:/[^/]+)??|${operation})?(${operation})/?$`,
);
/** Paths that exist only under /api/v1: a client with the base URL /v1 looks for its background jobs here. */
const managementPath = /^\/v1\/(?:jobs|usage|billing|plan|profile|rate-limits|api-keys|auth)(?:\/|$)/;

/** Where a request to an unknown address was probably meant to go; undefined when there is no telling. */
function meantAddress(method: string, path: string): string | undefined {
  // Some clients choose the Responses API for model names without a vendor (openai-contract.md section 0).
  if (/^\/(api\/)?v1\/responses/.test(path)) return 'POST /v1/chat/completions';
  // OpenAI's beta endpoints for sessions, in the shape of that time (openai-contract.md section 0).
  if (/^\/(api\/)?v1\/realtime\/(transcription_)?sessions\/?$/.test(path)) return 'POST /v1/realtime/client_secrets';
  const plain = path.replace(/\/{2,}/g, '/');
  const meant = misplacedOperation.exec(plain)?.[1];
  if (meant !== undefined) return `${meant === '/models' ? 'GET' : 'POST'} /v1${meant}`;
  return managementPath.test(plain) ? `${method} /api${plain}` : undefined;
}

const printable = (text: string): string => text.slice(0, 200).replace(/[^\x20-\x7e]/g, '?');

/** Anything thrown, as the one kind of error. Fastify's own errors are recognised by their code. */
export function toGatewayError(thrown: unknown): GatewayError {
  if (thrown instanceof GatewayError) return thrown;
  const error = thrown as Partial<FastifyError>;
  if (error.validation !== undefined) return validationError(error as FastifyError);
  switch (error.code) {
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return gatewayError(
        ErrorReason.UNSUPPORTED_CONTENT_TYPE,
        'This Content-Type is not supported here. Send audio files as `multipart/form-data` and everything else as `application/json`.',
      );
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return gatewayError(ErrorReason.UNKNOWN_URL, 'Unknown request URL: its path is too long.');
    case 'FST_ERR_BAD_URL':
      return invalidRequest(undefined, 'The URL has an invalid percent-encoding.');
  }
  if (error.statusCode !== undefined && error.statusCode >= 400 && error.statusCode < 500) {
    return invalidRequest(undefined, 'The request is not valid.');
  }
  return internalError(thrown);
}

/** Names the field of the first failure, in the public API's spelling. */
function validationError(error: FastifyError): GatewayError {
  const [first] = error.validation!;
  const params = first!.params as { additionalProperty?: string; missingProperty?: string };
  const isQuery = error.validationContext === 'querystring';
  const places = first!.instancePath.split('/').filter((part) => part !== '');
  // A parameter that is given several times has one name.
  const path = isQuery ? places.slice(0, 1) : places;
  const leaf = params.additionalProperty ?? params.missingProperty;
  const field = (leaf === undefined ? path : [...path, leaf]).join('.');
  if (field === '') return invalidRequest(undefined, 'The request body must be a JSON object.');
  if (params.additionalProperty !== undefined && isQuery)
    return invalidRequest(field, `Unknown query parameter: \`${printable(field)}\`.`, 'unknown_parameter');
  if (params.additionalProperty !== undefined)
    return invalidRequest(field, `Unknown field: \`${printable(field)}\`.`, 'unknown_field');
  if (params.missingProperty !== undefined)
    return invalidRequest(field, `Missing required field: \`${field}\`.`, 'missing_required_field');
  const allowed = allowedValues(error.validation!);
  return invalidValue(
    field,
    allowed === '' ? `it ${inEnglish(first!.message ?? 'is not valid')}` : `expected one of ${allowed}`,
  );
}

/** Rewords Ajv's messages, such as `must be <= 100` and `must NOT have fewer than 2 characters`. */
const inEnglish = (fault: string): string =>
  fault
    .replace(/^must be (integer|array|object)$/, 'must be an $1')
    .replace(/^must be (string|number|boolean)$/, 'must be a $1')
    .replace(/^must be >=/, 'must be at least')
    .replace(/^must be <=/, 'must be at most')
    .replace(/^must NOT have fewer than/, 'must have at least')
    .replace(/^must NOT have more than/, 'must have at most')
    .replace(/ 1 (character|item)s$/, ' 1 $1')
    .replace(/^must match pattern "(.*)"$/, 'does not match the pattern `$1`');

/**
 * The allowed values of a field, when the schema is a choice of values, possibly with other types beside them; a union fails once per
 * branch.
 */
function allowedValues(failures: NonNullable<FastifyError['validation']>): string {
  const branchOf = ({ schemaPath }: { schemaPath: string }): string => schemaPath.slice(0, schemaPath.lastIndexOf('/'));
  // A branch with a single value also fails by its type when the value has another one.
  const branchesOfValues = new Set(failures.filter(({ keyword }) => keyword === 'const').map(branchOf));
  const choices = failures.filter(
    (failure) =>
      failure.keyword !== 'anyOf' && !(failure.keyword === 'type' && branchesOfValues.has(branchOf(failure))),
  );
  if (choices.every(({ keyword }) => keyword === 'type')) return '';
  const words = choices.map(({ keyword, params }) => {
    switch (keyword) {
      case 'const':
        return params.allowedValue;
      case 'enum':
        return (params.allowedValues as string[]).join(', ');
      case 'type':
        return params.type;
      default:
        return undefined;
    }
  });
  return words.includes(undefined) ? '' : words.join(', ');
}
