import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { createServer } from 'node:net';
import { gzipSync } from 'node:zlib';
import { create, type DescMethod, toBinary } from '@bufbuild/protobuf';
import { Code, type HandlerContext, type Interceptor, type ServiceImpl, type Transport } from '@connectrpc/connect';
import { type CallOptions, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from 'vitest';
import { Health, HealthCheckResponse_ServingStatus as Status } from '#gen/grpc/health/v1/health_pb.ts';
import { GetKeyRequestSchema, KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { grpcClient, grpcServiceDefinition } from '../../../test/support/grpc-client.ts';
import { memoryGrowth } from '../../../test/support/memory.ts';
import { serveRpc, testTokens } from '../../../test/support/rpc-carriers.ts';
import { ManualClock } from '../clock.ts';
import { ErrorReason, gatewayError } from '../errors.ts';
import { type Caller, CallerKind, CallerSchema, callerContext, callerOf } from './caller.ts';
import { createRpcClient } from './client.ts';
import { createRpcClientTransport } from './client-transport.ts';
import { rpcService } from './rpc-service.ts';

const keyId = '0197f2a4-0000-7000-8000-000000000001';
const caller: Caller = create(CallerSchema, { kind: CallerKind.API_KEY, userId: 'user', requestId: 'req_1' });
const asCaller = () => ({ contextValues: callerContext(caller) });
const invocation = { operation: Operation.CHAT_COMPLETIONS, body: new Uint8Array([1]) };

const services = (handlers: {
  keys?: Partial<ServiceImpl<typeof KeysService>>;
  inference?: Partial<ServiceImpl<typeof InferenceService>>;
}) => [
  rpcService(KeysService, handlers.keys ?? {}, { callers: ['edge'] }),
  rpcService(InferenceService, handlers.inference ?? {}, { callers: ['edge'] }),
];

/** A transport that is closed at the end of its block. */
function transportTo(url: string, options: { ca?: string; interceptors?: Interceptor[]; issuer?: string } = {}) {
  const { ca, interceptors, issuer = 'edge' } = options;
  const tokens = interceptors ? undefined : testTokens(issuer);
  const transport = createRpcClientTransport({ url, tokens, interceptors, tls: ca ? { ca } : undefined });
  return Object.assign(transport, { [Symbol.dispose]: () => transport.close() });
}

/** For what comes to pass in its own time on a busy machine. */
const patience = { timeout: 30_000 };

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve());
  });

let consoleError: MockInstance;
beforeEach(() => {
  consoleError = vi.spyOn(console, 'error');
});
afterEach(() => {
  expect(consoleError).not.toHaveBeenCalled();
  consoleError.mockRestore();
});

describe('an open port', () => {
  const audience = KeysService.typeName;
  const past = new ManualClock(Date.now() - 120_000);
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const unsigned = (method: DescMethod) => {
    const nowSeconds = Math.floor(Date.now() / 1000);
    const claims = { iss: 'edge', aud: method.parent.typeName, iat: nowSeconds, exp: nowSeconds + 60, caller: '' };
    return `${encode({ alg: 'none', typ: 'service+jwt' })}.${encode(claims)}.`;
  };
  const tokenFor = (method: DescMethod, issuer: string, options?: { secrets?: string[]; clock?: ManualClock }) =>
    testTokens(issuer, options).mint(method.parent.typeName, caller);

  const rows: [string, (method: DescMethod) => Promise<string | undefined> | string | undefined][] = [
    ['no token', () => undefined],
    ['a token for another service', () => testTokens('edge').mint('modelgateway.auth.v1.AuthService', caller)],
    ['an expired token', (method) => tokenFor(method, 'edge', { clock: past })],
    ['a token of a service which may not call', (method) => tokenFor(method, 'mail')],
    [
      'a token of another secret',
      (method) => tokenFor(method, 'edge', { secrets: ['another secret of 32 bytes or more'] }),
    ],
    ['an unsigned token', unsigned],
  ];

  test.each(rows)('refuses every method with %s before a handler runs', async (_name, tokenOf) => {
    const handled: string[] = [];
    const handlers = (service: typeof KeysService | typeof InferenceService) =>
      Object.fromEntries(service.methods.map(({ localName }) => [localName, () => void handled.push(localName)]));
    await using port = await serveRpc(services({ keys: handlers(KeysService), inference: handlers(InferenceService) }));
    const setToken: Interceptor = (next) => async (request) => {
      const token = await tokenOf(request.method);
      if (token !== undefined) request.header.set('authorization', `Bearer ${token}`);
      return next(request);
    };
    using transport = transportTo(port.url, { interceptors: [setToken] });
    const grpc = grpcClient(port.url);
    for (const method of [...KeysService.methods, ...InferenceService.methods]) {
      const failure = await callAny(transport, method).then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(failure, method.name).toMatchObject({ reason: ErrorReason.UNAUTHENTICATED_SERVICE });
      const metadata = new Metadata();
      const token = await tokenOf(method);
      if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
      expect(await grpcCode(grpc, method, metadata), method.name).toBe(status.UNAUTHENTICATED);
    }
    grpc.close();
    expect(handled).toEqual([]);
  });

  test('tells of nothing but its services', async () => {
    await using port = await serveRpc(services({}));
    const session = connectHttp2(port.url);
    const paths = ['/', '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo', `/${audience}/Nothing`];
    const statuses = await Promise.all(
      paths.map((path) => rawPost(session, path, { 'content-type': 'application/grpc' }, [])),
    );
    session.close();
    expect(statuses.map(({ status }) => status)).toEqual([404, 404, 404]);
  });
});

/** Calls a method of any kind with empty messages, to its end. */
async function callAny(transport: Transport, method: DescMethod): Promise<void> {
  if (method.methodKind === 'unary') {
    await transport.unary(method as never, undefined, undefined, undefined, {} as never);
    return;
  }
  const requests = async function* () {
    yield {};
  };
  const response = await transport.stream(method as never, undefined, undefined, undefined, requests() as never);
  for await (const _message of response.message);
}

/** The code with which a method answers the independent gRPC client. */
function grpcCode(client: ReturnType<typeof grpcClient>, method: DescMethod, metadata: Metadata): Promise<number> {
  const definition = grpcServiceDefinition(method.parent)[method.localName]!;
  const { path, requestSerialize, responseDeserialize } = definition;
  const options: CallOptions = { deadline: Date.now() + 10_000 };
  return new Promise((resolve) => {
    if (!definition.responseStream) {
      const done = (error: ServiceError | null) => resolve(error?.code ?? status.OK);
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, {}, metadata, options, done);
      return;
    }
    const call = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize, metadata, options);
    call.on('error', () => {});
    call.on('data', () => {});
    call.on('status', ({ code }) => resolve(code));
    call.end();
  });
}

type RawAnswer = { status: number | undefined; body: string; resetCode: number };

/** Posts raw bytes, as fast as the server reads them, until it answers or closes the stream. */
function rawPost(
  session: ClientHttp2Session,
  path: string,
  headers: Record<string, string>,
  chunks: Iterable<Buffer>,
): Promise<RawAnswer> {
  const stream = session.request({ ':method': 'POST', ':path': path, ...headers });
  let answered: number | undefined;
  let body = '';
  const source = chunks[Symbol.iterator]();
  const pump = () => {
    for (;;) {
      if (stream.closed || stream.destroyed) return;
      const { done, value } = source.next();
      if (done) return void stream.end();
      if (!stream.write(value)) return void stream.once('drain', pump);
    }
  };
  return new Promise((resolve) => {
    stream.on('response', (head) => {
      answered = head[':status'];
    });
    stream.on('data', (chunk) => {
      body += chunk;
    });
    stream.on('error', () => {});
    stream.on('close', () => resolve({ status: answered, body, resetCode: stream.rstCode ?? 0 }));
    pump();
  });
}

describe('a bomb', () => {
  const mebibyte = 1024 * 1024;
  const unary = `/${KeysService.typeName}/GetKey`;
  const stream = `/${InferenceService.typeName}/Transcribe`;

  function* zeros(count: number) {
    const chunk = Buffer.alloc(mebibyte);
    for (let index = 0; index < count; index++) yield chunk;
  }

  test.each([
    ['an endless unary message', unary, { 'content-type': 'application/proto' }, () => zeros(1024)],
    [
      'a streamed message that announces 1 GiB',
      stream,
      { 'content-type': 'application/connect+proto' },
      function* () {
        yield Buffer.from([0, 0x40, 0, 0, 0]);
        yield* zeros(1024);
      },
    ],
    [
      'a gRPC message that announces 1 GiB',
      stream,
      { 'content-type': 'application/grpc', te: 'trailers' },
      function* () {
        yield Buffer.from([0, 0x40, 0, 0, 0]);
        yield* zeros(1024);
      },
    ],
    [
      'a gzip of 256 MiB',
      unary,
      { 'content-type': 'application/proto', 'content-encoding': 'gzip' },
      () => [gzipSync(Buffer.alloc(256 * mebibyte), { level: 1 })],
    ],
    [
      'a gzip without a token',
      unary,
      { 'content-type': 'application/proto', 'content-encoding': 'gzip', authorization: '' },
      () => [gzipSync(Buffer.alloc(64 * mebibyte), { level: 1 })],
    ],
    [
      'an endless unary message without a token',
      unary,
      { 'content-type': 'application/proto', authorization: '' },
      () => zeros(1024),
    ],
  ])('of the kind “%s” is refused in bounded memory', async (_name, path, headers, chunks) => {
    const getKey = vi.fn(() => ({}));
    await using port = await serveRpc(
      services({
        keys: { getKey },
        inference: {
          async *transcribe(requests) {
            for await (const _request of requests) yield {};
          },
        },
      }),
    );
    const audience = path.split('/')[1]!;
    const authorization = `Bearer ${await testTokens('edge').mint(audience, caller)}`;
    const bytes = chunks();
    const session = connectHttp2(port.url);
    let answer: RawAnswer | undefined;
    const growth = await memoryGrowth(32 * mebibyte, async () => {
      answer = await rawPost(session, path, { authorization, ...headers }, bytes);
    });
    session.close();
    expect(answer?.status, JSON.stringify(answer)).toBeDefined();
    expect(answer?.body ?? '').not.toContain('"key"');
    expect(getKey).not.toHaveBeenCalled();
    expect(growth).toBeLessThan(32 * mebibyte);
  });

  test('leaves the server answering', async () => {
    await using port = await serveRpc(services({ keys: { getKey: () => ({ key: { name: 'alive' } }) } }));
    const authorization = `Bearer ${await testTokens('edge').mint(KeysService.typeName, caller)}`;
    const session = connectHttp2(port.url);
    await rawPost(session, unary, { 'content-type': 'application/proto', authorization }, zeros(64));
    const body = Buffer.from(toBinary(GetKeyRequestSchema, create(GetKeyRequestSchema, { keyId })));
    const answer = await rawPost(session, unary, { 'content-type': 'application/proto', authorization }, [body]);
    session.close();
    expect(answer).toMatchObject({ status: 200, body: expect.stringContaining('alive') });
  });

  test('reads as REQUEST_TOO_LARGE to a client of ours', async () => {
    await using port = await serveRpc(services({ keys: { deleteKey: () => ({}) } }));
    using transport = transportTo(port.url);
    const call = createRpcClient(KeysService, transport).deleteKey({ keyId: 'x'.repeat(5 * mebibyte) }, asCaller());
    await expect(call).rejects.toMatchObject({ reason: ErrorReason.REQUEST_TOO_LARGE });
  });
});

describe('health', () => {
  test('is open without a token and follows what was set', async () => {
    await using port = await serveRpc(services({}));
    using transport = transportTo(port.url, { interceptors: [] });
    const health = createRpcClient(Health, transport);
    const keys = KeysService.typeName;
    expect((await health.check({})).status).toBe(Status.SERVING);
    expect((await health.check({ service: keys })).status).toBe(Status.SERVING);
    port.server.health.set(keys, false);
    expect((await health.check({ service: keys })).status).toBe(Status.NOT_SERVING);
    expect((await health.list({})).statuses[keys]?.status).toBe(Status.NOT_SERVING);
    await expect(health.check({ service: 'nothing' })).rejects.toMatchObject({ reason: ErrorReason.NOT_FOUND });
  });

  test('is watched from now on', async () => {
    await using port = await serveRpc([]);
    using transport = transportTo(port.url, { interceptors: [] });
    const watched = createRpcClient(Health, transport).watch({ service: 'later' })[Symbol.asyncIterator]();
    expect((await watched.next()).value?.status).toBe(Status.SERVICE_UNKNOWN);
    port.server.health.set('later', true);
    expect((await watched.next()).value?.status).toBe(Status.SERVING);
    port.server.health.set('later', false);
    expect((await watched.next()).value?.status).toBe(Status.NOT_SERVING);
  });
});

describe('a closing server', () => {
  test('ends subscriptions at once, lets calls finish, and takes no more', async () => {
    let finish = () => {};
    let watch: HandlerContext | undefined;
    let started = false;
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const port = await serveRpc(
      services({
        keys: {
          async getKey() {
            started = true;
            await finished;
            return { key: { name: 'finished' } };
          },
          async *watchKeys(_request, context) {
            watch = context;
            yield {};
            await new Promise(() => {});
          },
        },
      }),
      { drainMs: 60_000 },
    );
    using transport = transportTo(port.url);
    const keys = createRpcClient(KeysService, transport);
    const subscription = keys.watchKeys({ edgeId: keyId }, asCaller())[Symbol.asyncIterator]();
    await subscription.next();
    const call = keys.getKey({ keyId }, { ...asCaller(), timeoutMs: 60_000 });
    await vi.waitFor(() => expect(started).toBe(true), patience);
    const subscriptionEnd = subscription.next().then(
      () => undefined,
      (error: unknown) => error,
    );
    const closed = port.server.close();
    expect(await subscriptionEnd).toMatchObject({ reason: ErrorReason.OVERLOADED });
    expect(watch?.signal.aborted).toBe(true);
    finish();
    expect((await call).key?.name).toBe('finished');
    await closed;
    await expect(keys.getKey({ keyId }, asCaller())).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  });

  test('ends calls that outlast the drain', async () => {
    let started = () => {};
    const running = new Promise<void>((resolve) => {
      started = resolve;
    });
    let cleanedUp = false;
    const port = await serveRpc(
      services({
        inference: {
          async *invoke(_request, { signal }) {
            try {
              yield {};
              started();
              await aborted(signal);
            } finally {
              cleanedUp = true;
            }
          },
        },
      }),
      { drainMs: 50 },
    );
    using transport = transportTo(port.url);
    const reader = createRpcClient(InferenceService, transport).invoke(invocation, asCaller())[Symbol.asyncIterator]();
    await reader.next();
    const end = reader.next().then(
      () => undefined,
      (error: unknown) => error,
    );
    await running;
    await port.server.close();
    expect(await end).toMatchObject({ reason: ErrorReason.OVERLOADED });
    expect(cleanedUp).toBe(true);
  });

  test('closes although a client keeps its connection and a handler hangs', async () => {
    const getKey = vi.fn(() => new Promise<never>(() => {}));
    const port = await serveRpc(services({ keys: { getKey } }), { drainMs: 50 });
    using transport = transportTo(port.url);
    const call = createRpcClient(KeysService, transport).getKey({ keyId }, asCaller());
    const end = call.catch((error: unknown) => error);
    await vi.waitFor(() => expect(getKey).toHaveBeenCalled(), patience);
    await port.server.close();
    expect(await end).toMatchObject({ reason: ErrorReason.OVERLOADED });
  });
});

describe('a client', () => {
  test('of a port where nobody listens fails with OVERLOADED, and works once somebody does', async () => {
    await using port = await serveRpc(services({ keys: { getKey: () => ({}) } }));
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port: free } = taken.address() as { port: number };
    await new Promise((resolve) => taken.close(resolve));
    using nowhere = transportTo(`http://127.0.0.1:${free}`);
    const call = () => createRpcClient(KeysService, nowhere).getKey({ keyId }, asCaller());
    await expect(call()).rejects.toMatchObject({
      reason: ErrorReason.OVERLOADED,
      details: { internal: expect.stringContaining('ECONNREFUSED') },
    });
    using there = transportTo(port.url);
    await createRpcClient(KeysService, there).getKey({ keyId }, asCaller());
  });

  test('that does not trust the certificate makes no call', async () => {
    const getKey = vi.fn(() => ({}));
    await using port = await serveRpc(services({ keys: { getKey } }), { tls: true });
    using transport = transportTo(port.url);
    const call = createRpcClient(KeysService, transport).getKey({ keyId }, asCaller());
    await expect(call).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
    expect(getKey).not.toHaveBeenCalled();
  });
});

describe('the log', () => {
  test('tells method, time and caller of each call, and nothing of its content', async () => {
    await using port = await serveRpc(services({ keys: { getKey: () => ({ key: { name: 'CONTENT' } }) } }));
    using transport = transportTo(port.url);
    await createRpcClient(KeysService, transport).getKey({ keyId }, asCaller());
    expect(port.lines).toEqual([
      expect.objectContaining({
        method: 'modelgateway.keys.v1.KeysService/GetKey',
        latencyMs: expect.any(Number),
        userId: 'user',
        requestId: 'req_1',
      }),
    ]);
    expect(JSON.stringify(port.lines)).not.toMatch(new RegExp(`CONTENT|${keyId}`));
  });
});

describe('an independent gRPC client', () => {
  const metadataFor = async (audience: string) => {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${await testTokens('edge').mint(audience, caller)}`);
    return metadata;
  };

  test.each([false, true])('makes unary and streaming calls (TLS: %s)', async (tls) => {
    await using port = await serveRpc(
      services({
        keys: { getKey: ({ keyId: id }, context) => ({ key: { id, name: callerOf(context).userId } }) },
        inference: {
          async *transcribe(requests) {
            for await (const { message } of requests)
              yield { message: { case: 'eventJson', value: `${message.value}!` } };
          },
        },
      }),
      { tls },
    );
    const client = grpcClient(port.url, port.ca);
    const { getKey } = grpcServiceDefinition(KeysService);
    const metadata = await metadataFor(KeysService.typeName);
    const answer = await new Promise((resolve, reject) => {
      const done = (error: ServiceError | null, message?: unknown) => (error ? reject(error) : resolve(message));
      client.makeUnaryRequest(
        getKey!.path,
        getKey!.requestSerialize,
        getKey!.responseDeserialize,
        { keyId },
        metadata,
        done,
      );
    });
    expect(answer).toMatchObject({ key: { id: keyId, name: 'user' } });

    const { transcribe } = grpcServiceDefinition(InferenceService);
    const call = client.makeBidiStreamRequest(
      transcribe!.path,
      transcribe!.requestSerialize,
      transcribe!.responseDeserialize,
      await metadataFor(InferenceService.typeName),
    );
    const answers: unknown[] = [];
    call.write({ message: { case: 'eventJson', value: 'a' } });
    for await (const message of call) {
      answers.push(message.message.value);
      if (answers.length === 1) call.write({ message: { case: 'eventJson', value: 'b' } });
      else call.end();
    }
    client.close();
    expect(answers).toEqual(['a!', 'b!']);
  });

  test('gets the whole answer and its status although it still talks', async () => {
    await using port = await serveRpc(
      services({
        inference: {
          async *transcribe() {
            for (let index = 0; index < 100; index++) {
              yield { message: { case: 'eventJson', value: `${index}`.padEnd(65_536) } };
            }
          },
        },
      }),
    );
    const client = grpcClient(port.url);
    const { transcribe } = grpcServiceDefinition(InferenceService);
    const call = client.makeBidiStreamRequest(
      transcribe!.path,
      transcribe!.requestSerialize,
      transcribe!.responseDeserialize,
      await metadataFor(InferenceService.typeName),
    );
    call.write({ message: { case: 'eventJson', value: 'a' } });
    const ended = new Promise<number>((resolve) => call.on('status', ({ code }) => resolve(code)));
    let answers = 0;
    for await (const _message of call) answers++;
    expect([answers, await ended]).toEqual([100, status.OK]);
    client.close();
  });

  test('sees codes, deadlines and details, and its cancellation reaches the handler', async () => {
    let context: HandlerContext | undefined;
    await using port = await serveRpc(
      services({
        keys: {
          getKey() {
            throw gatewayError(ErrorReason.MISSING_SCOPE, 'Missing scope.', { internal: 'SECRET' });
          },
          async deleteKey(_request, handlerContext) {
            context = handlerContext;
            await aborted(handlerContext.signal);
            return {};
          },
        },
      }),
    );
    const client = grpcClient(port.url);
    const { getKey, deleteKey } = grpcServiceDefinition(KeysService);
    const metadata = await metadataFor(KeysService.typeName);
    const failure = await new Promise<ServiceError | null>((resolve) => {
      client.makeUnaryRequest(
        getKey!.path,
        getKey!.requestSerialize,
        getKey!.responseDeserialize,
        { keyId },
        metadata,
        resolve,
      );
    });
    expect(failure).toMatchObject({ code: status.PERMISSION_DENIED, details: 'Missing scope.' });
    expect(failure?.code).toBe(Code.PermissionDenied);
    const detail = failure?.metadata.get('grpc-status-details-bin')[0]?.toString();
    expect(detail).toContain('modelgateway.common.v1.ErrorDetail');
    expect(detail).not.toContain('SECRET');

    const invoke = (options: CallOptions) => {
      let call: { cancel(): void } | undefined;
      const end = new Promise<ServiceError | null>((resolve) => {
        call = client.makeUnaryRequest(
          deleteKey!.path,
          deleteKey!.requestSerialize,
          deleteKey!.responseDeserialize,
          { keyId },
          metadata,
          options,
          resolve,
        );
      });
      return { end, cancel: () => call?.cancel() };
    };
    // Long enough to reach the handler on a machine that is ever so busy.
    const late = await invoke({ deadline: Date.now() + 1_000 }).end;
    expect(late?.code).toBe(status.DEADLINE_EXCEEDED);
    await aborted(context!.signal);

    context = undefined;
    const cancelled = invoke({});
    await vi.waitFor(() => expect(context).toBeDefined(), patience);
    cancelled.cancel();
    expect((await cancelled.end)?.code).toBe(status.CANCELLED);
    await aborted(context!.signal);
    client.close();
  });
});
