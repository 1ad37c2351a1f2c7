import type { DescMethod, DescMethodStreaming, DescMethodUnary, DescService, Message } from '@bufbuild/protobuf';
import type { CallOptions, Client, StreamResponse, Transport } from '@connectrpc/connect';
import type { LocalTransport } from './local-transport.ts';
import { SingleMessage } from './single-message.ts';

/** Any of our transports. */
type ClientTransport = Transport & Partial<Pick<LocalTransport, 'open'>>;

/**
 * A client of a service over any of our transports. Unlike Connect's own, leaving a `for await` over a stream cancels the call, and a
 * streaming call begins when it is first read. Failures are GatewayErrors.
 */
export function createRpcClient<Service extends DescService>(
  service: Service,
  transport: ClientTransport,
): Client<Service> {
  const methods = service.methods.map((method) => [method.localName, clientMethod(method, transport)]);
  return Object.fromEntries(methods) as Client<Service>;
}

function clientMethod(method: DescMethod, transport: ClientTransport) {
  const streaming = method as DescMethodStreaming;
  switch (method.methodKind) {
    case 'unary':
      return unaryCall(method as DescMethodUnary, transport);
    case 'server_streaming':
      return (request: Message, options?: CallOptions) =>
        new ClientStream(streaming, transport, new SingleMessage(request), options);
    case 'bidi_streaming':
      return (requests: AsyncIterable<Message>, options?: CallOptions) =>
        new ClientStream(streaming, transport, requests, options);
    default:
      throw new Error(`${method.name} has one answer to a stream, as no method of ours has`);
  }
}

function unaryCall(method: DescMethodUnary, transport: Transport) {
  return async (request: Message, options: CallOptions = noOptions): Promise<Message> => {
    const { signal, timeoutMs, headers, contextValues } = options;
    const response = await transport.unary(method, signal, timeoutMs, headers, request, contextValues);
    options.onHeader?.(response.header);
    options.onTrailer?.(response.trailer);
    return response.message;
  };
}

const noOptions: CallOptions = {};

/** One streaming call; it begins with the first read. */
class ClientStream implements AsyncIterableIterator<Message, undefined> {
  readonly #method: DescMethodStreaming;
  readonly #transport: ClientTransport;
  readonly #requests: AsyncIterable<Message>;
  readonly #options: CallOptions;
  #responses: AsyncIterator<Message> | undefined;
  #begun: Promise<AsyncIterator<Message>> | AsyncIterator<Message> | undefined;

  constructor(
    method: DescMethodStreaming,
    transport: ClientTransport,
    requests: AsyncIterable<Message>,
    options: CallOptions = noOptions,
  ) {
    this.#method = method;
    this.#transport = transport;
    this.#requests = requests;
    this.#options = options;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Message, undefined>> {
    if (this.#responses !== undefined) return this.#responses.next();
    this.#begun ??= this.#begin();
    return this.#begun instanceof Promise ? this.#begun.then((responses) => responses.next()) : this.#begun.next();
  }

  async return(): Promise<IteratorResult<Message, undefined>> {
    if (this.#begun !== undefined) await (await this.#begun).return?.();
    else this.#begun = { next: async () => ended };
    return ended;
  }

  #begin(): Promise<AsyncIterator<Message>> | AsyncIterator<Message> {
    const { signal, timeoutMs, headers, contextValues } = this.#options;
    const transport = this.#transport;
    const open = transport.open ?? transport.stream;
    try {
      const opened = open.call(transport, this.#method, signal, timeoutMs, headers, this.#requests, contextValues);
      return opened instanceof Promise ? opened.then((response) => this.#opened(response)) : this.#opened(opened);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #opened(response: StreamResponse): AsyncIterator<Message> {
    const { onHeader, onTrailer } = this.#options;
    onHeader?.(response.header);
    const responses = onTrailer ? withTrailer(response.message, () => onTrailer(response.trailer)) : response.message;
    this.#responses = responses[Symbol.asyncIterator]();
    return this.#responses;
  }
}

const ended: IteratorResult<never, undefined> = { done: true, value: undefined };

async function* withTrailer(messages: AsyncIterable<Message>, onEnd: () => void) {
  yield* messages;
  onEnd();
}
