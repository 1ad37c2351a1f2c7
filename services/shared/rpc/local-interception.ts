import { create, type Message } from '@bufbuild/protobuf';
import type {
  HandlerContext,
  Interceptor,
  StreamRequest,
  StreamResponse,
  UnaryRequest,
  UnaryResponse,
} from '@connectrpc/connect';
import type { LocalContext } from './local-context.ts';
import { type LocalMethod, openResponses } from './local-method.ts';
import { SingleMessage } from './single-message.ts';

type Chain = ReturnType<Interceptor>;

/** Runs a unary implementation inside interceptors. They may spread what they are given, so all of it is made. */
export function interceptUnary(
  interceptors: readonly Interceptor[],
  target: LocalMethod,
  input: unknown,
  context: LocalContext,
): Promise<UnaryResponse> {
  const innermost = async (request: UnaryRequest): Promise<UnaryResponse> => {
    const answer = await target.implement(target.readRequest(request.message), contextOf(context, request));
    return {
      stream: false,
      message: create(target.method.output, answer as never),
      ...responseFields<UnaryResponse>(context),
    };
  };
  const run = chain(interceptors, innermost as Chain);
  const message = create(target.method.input, input as never);
  return run({ stream: false, message, ...requestFields<UnaryRequest>(context) }) as Promise<UnaryResponse>;
}

/** Runs a streaming implementation inside interceptors. */
export async function interceptStream(
  interceptors: readonly Interceptor[],
  target: LocalMethod,
  input: AsyncIterable<unknown>,
  context: LocalContext,
): Promise<AsyncIterable<unknown>> {
  const innermost = async (request: StreamRequest): Promise<StreamResponse> => ({
    stream: true,
    message: (await openResponses(target, request.message, contextOf(context, request))) as AsyncIterable<Message>,
    ...responseFields<StreamResponse>(context),
  });
  const run = chain(interceptors, innermost as Chain);
  const single = input instanceof SingleMessage;
  const message = single
    ? new SingleMessage(create(target.method.input, input.message as never))
    : createdEach(target, input);
  const response = await run({ stream: true, message, ...requestFields<StreamRequest>(context) });
  return response.message as AsyncIterable<unknown>;
}

const chain = (interceptors: readonly Interceptor[], innermost: Chain): Chain =>
  interceptors.reduceRight((next, interceptor) => interceptor(next), innermost);

async function* createdEach(target: LocalMethod, input: AsyncIterable<unknown>) {
  for await (const init of input) yield create(target.method.input, init as never);
}

const requestFields = <Request extends UnaryRequest | StreamRequest>(context: LocalContext) => ({
  method: context.method as Request['method'],
  service: context.service,
  requestMethod: context.requestMethod,
  url: context.url,
  signal: context.signal,
  header: context.requestHeader,
  contextValues: context.values,
});

const responseFields = <Response extends UnaryResponse | StreamResponse>(context: LocalContext) => ({
  method: context.method as Response['method'],
  service: context.service,
  header: context.responseHeader,
  trailer: context.responseTrailer,
});

/** The handler's context, with what interceptors replaced in the request. */
const contextOf = (context: LocalContext, request: UnaryRequest | StreamRequest): HandlerContext => ({
  method: context.method,
  service: context.service,
  requestMethod: context.requestMethod,
  url: context.url,
  protocolName: context.protocolName,
  responseHeader: context.responseHeader,
  responseTrailer: context.responseTrailer,
  timeoutMs: () => context.timeoutMs(),
  requestHeader: request.header,
  signal: request.signal,
  values: request.contextValues,
});
