import { create, type DescMessage, type DescMethod, type Message, type MessageInitShape } from '@bufbuild/protobuf';
import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect';
import { InterruptibleStream, unnoticed } from './interruptible-stream.ts';
import type { RpcService } from './rpc-service.ts';
import { SingleMessage } from './single-message.ts';
import type { ValidateMessage } from './validation.ts';

/** A message, or its fields. */
type AnyInit = MessageInitShape<DescMessage>;

/** One method as the local transport calls it. */
export type LocalMethod = {
  method: DescMethod;
  /** The implementation's answer to one message (unary, server streaming) or to a stream of them. */
  implement(input: Message | AsyncIterable<Message>, context: HandlerContext): unknown;
  /** Turns what the client gave into a checked request message. */
  readRequest(init: unknown): Message;
  /** Turns what the implementation gave into a response message. */
  readResponse(init: unknown): Message;
};

/** The methods of a service by descriptor, without unimplemented ones. */
export function localMethods(service: RpcService, validate: ValidateMessage): [DescMethod, LocalMethod][] {
  const { implementation, validateLocally } = service;
  return service.service.methods.flatMap((method): [DescMethod, LocalMethod][] => {
    const implement = implementation[method.localName] as LocalMethod['implement'] | undefined;
    if (implement === undefined) return [];
    const local: LocalMethod = {
      method,
      implement: implement.bind(implementation),
      readRequest: requestReader(method),
      readResponse: (init) => create(method.output, init as AnyInit),
    };
    return [[method, local]];
  });

  function requestReader(method: DescMethod): (init: unknown) => Message {
    if (!validateLocally) return (init) => create(method.input, init as AnyInit);
    return (init) => {
      const message = create(method.input, init as AnyInit);
      validate(method.input, message);
      return message;
    };
  }
}

/** Calls an implementation that answers with a stream. */
export function openResponses(
  target: LocalMethod,
  input: AsyncIterable<unknown>,
  context: HandlerContext,
): AsyncIterable<unknown> | Promise<AsyncIterable<unknown>> {
  switch (target.method.methodKind) {
    case 'server_streaming':
      if (!(input instanceof SingleMessage)) return openWithFirst(target, input, context);
      return target.implement(target.readRequest(input.message), context) as AsyncIterable<unknown>;
    case 'bidi_streaming':
      return target.implement(openRequests(target, input, context), context) as AsyncIterable<unknown>;
    default:
      throw new ConnectError(`${target.method.name} does not answer with a stream`, Code.Internal);
  }
}

async function openWithFirst(target: LocalMethod, input: AsyncIterable<unknown>, context: HandlerContext) {
  for await (const init of input) {
    return target.implement(target.readRequest(init), context) as AsyncIterable<unknown>;
  }
  throw new ConnectError('the request message is missing', Code.Unimplemented);
}

/** The client's messages, as the implementation reads them. They end with the call, so that neither side waits for the other in vain. */
const openRequests = (target: LocalMethod, input: AsyncIterable<unknown>, { signal }: HandlerContext) =>
  new InterruptibleStream(input, target.readRequest, unnoticed).interruptOn(signal);
