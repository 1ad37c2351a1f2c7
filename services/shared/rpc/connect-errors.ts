import { create } from '@bufbuild/protobuf';
import { durationFromMs, durationMs, timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt';
import { Code, ConnectError } from '@connectrpc/connect';
import { type ErrorDetail, ErrorDetailSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { rpcCodeOf } from '../error-table.ts';
import { cancelled, ErrorReason, GatewayError, gatewayError, hasReason, internalError } from '../errors.ts';
import { messageOf } from '../message-of.ts';

/** The part of an error that may leave the process: everything but what is for operators, the cause and the original stack. */
export function publicPart(error: GatewayError): GatewayError {
  const { internal: _internal, logged: _logged, cause: _cause, ...details } = error.details;
  const kept = Object.entries(details).filter(([, value]) => value !== undefined && value !== '');
  return gatewayError(error.reason, error.message, Object.fromEntries(kept));
}

/** An error's form on the wire: text of limited length; the internal text and the cause stay here. */
export function toConnectError(error: GatewayError): ConnectError {
  const text = sendable(error.message);
  const detail = { desc: ErrorDetailSchema, value: { ...toErrorDetail(error), message: text } };
  return new ConnectError(text, rpcCodeOf(error.reason), undefined, [detail]);
}

/**
 * How much of the trailers that gRPC clients accept (8 KiB in Java, at least that in C and Python) is for the text, which occurs in them
 * three times: percent-encoded, and twice in base64.
 */
const trailerBytesMax = 7_000;
const trailerBytesOf = (text: string): number =>
  encodeURIComponent(text).length + (2 * Buffer.byteLength(text) * 4) / 3;

/** Text from an upstream, or quoted from a request, may be longer. */
function sendable(text: string): string {
  if (trailerBytesOf(text) <= trailerBytesMax) return text;
  let bytes = 0;
  let length = 0;
  for (const character of text) {
    bytes += trailerBytesOf(character);
    if (bytes > trailerBytesMax) break;
    length += character.length;
  }
  return `${text.slice(0, length)}…`;
}

/** The public part of an error as a message, to be sent or kept. */
export function toErrorDetail(error: GatewayError): ErrorDetail {
  const { param, retryAfterMs, resetsAtMs, upstream, code } = error.details;
  return create(ErrorDetailSchema, {
    reason: error.reason,
    message: error.message,
    param,
    retryAfter: retryAfterMs === undefined ? undefined : durationFromMs(Math.ceil(retryAfterMs)),
    resetsAt: resetsAtMs === undefined ? undefined : timestampFromMs(resetsAtMs),
    upstream,
    code,
  });
}

/**
 * Converts any failure of a call to a GatewayError: one with an ErrorDetail to what it was, one of the RPC framework by its code, a broken
 * connection to OVERLOADED, and everything else to INTERNAL. A call that ended as cancelled without being `cancelledHere` was given up on
 * its way. Callers over the network name their `peer`, for operators: if something else than such a service answers there, the service is
 * out of reach too.
 */
export function fromConnectError(error: unknown, cancelledHere = true, peer?: string): GatewayError {
  if (error instanceof GatewayError) return error;
  if (!(error instanceof ConnectError)) return isAbort(error) ? cancelled(error) : internalError(error);
  const detail = error.findDetails(ErrorDetailSchema)[0];
  if (detail !== undefined) return fromErrorDetail(detail);
  if (peer === undefined) return fromFramework(error, cancelledHere);
  const reason = error.rawMessage === '' && error.cause !== undefined ? messageOf(error.cause) : error.rawMessage;
  const told = new ConnectError(`${peer}: ${reason}`, error.code, error.metadata, undefined, error.cause);
  return isOfNoService(error) ? outOfReach(detailsOf(told)) : fromFramework(told, cancelledHere);
}

/** What proxies, and processes without the service, answer. A service's own refusals have an ErrorDetail. */
const isOfNoService = ({ code, rawMessage }: ConnectError): boolean =>
  [Code.Unimplemented, Code.Unauthenticated, Code.PermissionDenied].includes(code) ||
  /^(HTTP \d{3}$|unsupported content type )/.test(rawMessage);

const detailsOf = (error: ConnectError) => ({ internal: error.message, cause: error });

/** The inverse of toErrorDetail. */
export function fromErrorDetail(detail: ErrorDetail): GatewayError {
  const { upstream } = detail;
  return publicPart(
    gatewayError(detail.reason, detail.message, {
      param: detail.param,
      code: detail.code,
      retryAfterMs: detail.retryAfter && durationMs(detail.retryAfter),
      resetsAtMs: detail.resetsAt && timestampMs(detail.resetsAt),
      upstream: upstream && {
        status: upstream.status,
        ...(upstream.type !== '' && { type: upstream.type }),
        ...(upstream.code !== '' && { code: upstream.code }),
      },
    }),
  );
}

/** Errors made by the RPC framework, not by a handler: their text is for operators, except where it says what is wrong with the request. */
function fromFramework(error: ConnectError, cancelledHere: boolean): GatewayError {
  const details = detailsOf(error);
  switch (error.code) {
    case Code.Canceled:
      return cancelledHere ? cancelled(error) : outOfReach(details);
    case Code.DeadlineExceeded:
      return gatewayError(ErrorReason.DEADLINE_EXCEEDED, 'The gateway did not answer in time.', details);
    case Code.Unimplemented: {
      const isCompressed = error.rawMessage.startsWith('unknown compression');
      const text = isCompressed ? 'Compressed messages are not accepted.' : 'This operation is not implemented.';
      return gatewayError(ErrorReason.UNIMPLEMENTED, text, details);
    }
    case Code.Unauthenticated:
      return gatewayError(ErrorReason.UNAUTHENTICATED_SERVICE, 'The service token was refused.', details);
    case Code.InvalidArgument:
      return gatewayError(ErrorReason.INVALID_REQUEST, `The request could not be read: ${error.rawMessage}.`, details);
    case Code.ResourceExhausted:
      // connect-es mentions its option in the text; the only other source is HTTP/2's ENHANCE_YOUR_CALM.
      return error.rawMessage.includes('MaxBytes') || error.rawMessage.includes('is larger than')
        ? gatewayError(ErrorReason.REQUEST_TOO_LARGE, 'The message is too large.', details)
        : outOfReach(details);
    case Code.Unavailable:
    case Code.Aborted:
      return outOfReach(details);
    default:
      // A cause means that the error arose in this process's connection (a TLS failure, a lost socket).
      return error.cause === undefined ? internalError(error) : outOfReach(details);
  }
}

/** What an aborted AbortSignal throws if it was given no reason. */
const isAbort = (error: unknown): error is Error => error instanceof Error && error.name === 'AbortError';

/** The failure of a question that changed nothing: without an answer in time the service counts as out of reach, and asking again is safe. */
export const outOfReachIfLate = (error: unknown): unknown =>
  hasReason(error, ErrorReason.DEADLINE_EXCEEDED) ? outOfReach({ internal: error.message, cause: error }) : error;

/** What callers are told when a service cannot be reached, or refuses their process. */
export const outOfReachText = 'A part of the gateway is out of reach. Try again shortly.';

const outOfReach = (details: { internal: string; cause: unknown }): GatewayError =>
  gatewayError(ErrorReason.OVERLOADED, outOfReachText, details);
