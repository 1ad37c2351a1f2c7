import type { DescMethod, DescService } from '@bufbuild/protobuf';
import type { Interceptor, StreamResponse, Transport, UnaryResponse } from '@connectrpc/connect';
import { Code, ConnectError } from '@connectrpc/connect';
import { ErrorReason, gatewayError } from '../errors.ts';
import type { CallReport } from './call-report.ts';
import { effectiveTimeoutMs, unaryTimeoutMsDefault } from './deadline.ts';
import { InterruptibleStream, type StreamEnding } from './interruptible-stream.ts';
import { LocalContext } from './local-context.ts';
import { interceptStream, interceptUnary } from './local-interception.ts';
import { type LocalMethod, localMethods, openResponses } from './local-method.ts';
import type { RpcService } from './rpc-service.ts';
import type { ValidateMessage } from './validation.ts';

export type LocalTransportDeps = {
  report: CallReport;
  validate: ValidateMessage;
  /** Run around each implementation, the first one outermost. Calls without any are several times cheaper. */
  interceptors?: readonly Interceptor[];
};

/** Opens a stream without a promise where it can: a promise for each call costs as much as a message. */
export type LocalTransport = Transport & {
  open(...call: Parameters<Transport['stream']>): StreamResponse | Promise<StreamResponse>;
};

/**
 * A Transport that calls implementations in this process with the message objects themselves: nothing is encoded, no service token is
 * needed, and the caller is passed in context values. Deadlines, cancellation, validation, reports and errors are as on the network, but
 * messages are shared: neither side may change one that it has passed on.
 */
export function createLocalTransport(services: readonly RpcService[], deps: LocalTransportDeps): LocalTransport {
  const { report, validate, interceptors = [] } = deps;
  const methods = new Map(services.flatMap((service) => localMethods(service, validate)));

  function find(method: DescMethod): LocalMethod {
    const found = methods.get(method);
    if (found === undefined) throw unimplemented(method);
    return found;
  }

  return {
    async unary(method, signal, timeoutMsAsked, header, input, values) {
      const timeoutMs = effectiveTimeoutMs(timeoutMsAsked, unaryTimeoutMsDefault);
      const context = new LocalContext({ method, signal, timeoutMs, header, values }, report.now());
      try {
        if (context.abortReason !== undefined) throw context.abortReason;
        const target = find(method);
        const response =
          interceptors.length === 0
            ? new LocalResponse(
                context,
                target.readResponse(await context.until(target.implement(target.readRequest(input), context))),
                false,
              )
            : await context.until(interceptUnary(interceptors, target, input, context));
        report.succeeded(context);
        return response as UnaryResponse<typeof method.input, typeof method.output>;
      } catch (error) {
        throw report.failed(context, error);
      } finally {
        context.end();
      }
    },

    async stream(...call) {
      return open(...call) as never;
    },

    open,
  };

  function open(
    ...[method, signal, timeoutMsAsked, header, input, values]: Parameters<Transport['stream']>
  ): StreamResponse | Promise<StreamResponse> {
    const timeoutMs = effectiveTimeoutMs(timeoutMsAsked, undefined);
    const context = new LocalContext({ method, signal, timeoutMs, header, values }, report.now());
    const answer = (responses: AsyncIterable<unknown>): StreamResponse => {
      const stream = new InterruptibleStream(responses, target.readResponse, new LocalStreamEnding(context, report));
      context.waiting = stream;
      return new LocalResponse(context, stream, true) as never;
    };
    const refuse = (error: unknown): never => {
      const visible = report.failed(context, error);
      context.end();
      throw visible;
    };
    let target: LocalMethod;
    try {
      if (context.abortReason !== undefined) throw context.abortReason;
      target = find(method);
      const opened =
        interceptors.length === 0
          ? openResponses(target, input, context)
          : interceptStream(interceptors, target, input, context);
      if (!(opened instanceof Promise)) return answer(opened);
      return Promise.resolve(context.until(opened)).then(answer).catch(refuse);
    } catch (error) {
      return refuse(error);
    }
  }
}

const unimplemented = (method: DescMethod) =>
  gatewayError(ErrorReason.UNIMPLEMENTED, 'This operation is not implemented.', {
    internal: `${method.parent.typeName}/${method.name} has no implementation here`,
  });

/** When a stream ends, so does its call. */
class LocalStreamEnding implements StreamEnding {
  readonly #context: LocalContext;
  readonly #report: CallReport;

  constructor(context: LocalContext, report: CallReport) {
    this.#context = context;
    this.#report = report;
  }

  finished(): void {
    this.#report.succeeded(this.#context);
    this.#context.end();
  }

  failed(error: unknown): unknown {
    const visible = this.#report.failed(this.#context, error);
    this.#context.end();
    return visible;
  }

  left(): void {
    this.#context.abort(new ConnectError('the client left the stream', Code.Canceled));
    this.failed(this.#context.abortReason);
  }
}

/** A response whose headers are made when they are read. `message` is one message or, of a stream, all of them. */
class LocalResponse<Message, IsStream extends boolean> {
  readonly stream: IsStream;
  readonly message: Message;
  readonly #context: LocalContext;

  constructor(context: LocalContext, message: Message, stream: IsStream) {
    this.#context = context;
    this.message = message;
    this.stream = stream;
  }

  get method(): DescMethod {
    return this.#context.method;
  }

  get service(): DescService {
    return this.#context.service;
  }

  get header(): Headers {
    return this.#context.responseHeader;
  }

  get trailer(): Headers {
    return this.#context.responseTrailer;
  }
}
