import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import type { HandlerContext, Interceptor, StreamRequest, StreamResponse, UnaryRequest } from '@connectrpc/connect';
import { ErrorReason, gatewayError } from '../errors.ts';
import type { CallReport, ReportedCall } from './call-report.ts';
import { setCaller } from './caller.ts';
import { toConnectError } from './connect-errors.ts';
import { InterruptibleStream, unnoticed } from './interruptible-stream.ts';
import type { RpcService } from './rpc-service.ts';
import type { ServiceTokens } from './service-token.ts';
import type { ValidateMessage } from './validation.ts';

/**
 * Reports every call and converts its failure to the form for the wire; the text of unknown errors stays in the log. A call that was
 * cancelled or is late ends even if its handler does not listen, since its client has gone.
 */
export const reportCalls =
  (report: CallReport): Interceptor =>
  (next) =>
  async (request) => {
    const call: ReportedCall = { method: request.method, values: request.contextValues, startedMs: report.now() };
    const failed = (error: unknown) => {
      if (request.signal.aborted) call.abortReason = request.signal.reason;
      return toConnectError(report.failed(call, error));
    };
    try {
      // If a call broke off within its message, the part that came reads like a shorter or empty one.
      request.signal.throwIfAborted();
      const response = await untilAborted(next(request), request.signal);
      if (response.stream) return { ...response, message: reportedStream(request.signal, response, failed, succeeded) };
      succeeded();
      return response;
    } catch (error) {
      throw failed(error);
    }

    function succeeded() {
      report.succeeded(call);
    }
  };

function reportedStream(
  signal: AbortSignal,
  response: StreamResponse,
  failed: (error: unknown) => Error,
  finished: () => void,
): AsyncIterable<MessageShape<DescMessage>> {
  return new InterruptibleStream(response.message, (message) => message as MessageShape<DescMessage>, {
    finished,
    failed,
    left: () => failed(signal.reason),
  }).interruptOn(signal);
}

function untilAborted<T>(answer: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    answer.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}

/** Checks each request message against the rules in its proto file. */
export const validateRequests =
  (validate: ValidateMessage): Interceptor =>
  (next) =>
  async (request) => {
    const check = (message: unknown) => {
      validate(request.method.input, message as MessageShape<DescMessage>);
      return message as MessageShape<DescMessage>;
    };
    if (!request.stream) check(request.message);
    return next(request.stream ? { ...request, message: checkedEach(request, check) } : request);
  };

const checkedEach = (request: StreamRequest, check: (message: unknown) => UnaryRequest['message']) =>
  new InterruptibleStream(request.message, check, unnoticed);

/**
 * Ends subscriptions as soon as the server drains: they have no end of their own, and their clients turn to another replica. By convention
 * the name of a subscription begins with Watch.
 */
export const endWatchesOn =
  (draining: AbortSignal): Interceptor =>
  (next) =>
  (request) =>
    request.method.name.startsWith('Watch')
      ? next({ ...request, signal: AbortSignal.any([request.signal, draining]) } as UnaryRequest | StreamRequest)
      : next(request);

/** Lets a call in only with a token for this service from one of its callers, before reading any of its body; then sets the caller. */
export function serviceTokenGate(
  service: RpcService,
  tokens: ServiceTokens,
  report: CallReport,
): ((context: HandlerContext) => Promise<void>) | undefined {
  const { callers } = service;
  if (callers === 'anyone') return undefined;
  return async (context) => {
    const startedMs = report.now();
    try {
      const token = bearerToken(context.requestHeader.get('authorization'));
      setCaller(context.values, await tokens.verify(token, service.service.typeName, callers));
    } catch (error) {
      throw toConnectError(report.failed({ method: context.method, values: context.values, startedMs }, error));
    }
  };
}

function bearerToken(header: string | null): string {
  if (header?.startsWith('Bearer ')) return header.slice('Bearer '.length);
  throw gatewayError(ErrorReason.UNAUTHENTICATED_SERVICE, 'The call carries no service token.');
}
