import { once } from 'node:events';
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { create, type DescMethod, toBinary } from '@bufbuild/protobuf';
import type { Transport } from '@connectrpc/connect';
import { type CallOptions, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { describe, expect, test, vi } from 'vitest';
import { GetKeyRequestSchema, KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { grpcClient, grpcServiceDefinition } from '../../../test/support/grpc-client.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { memoryGrowth } from '../../../test/support/memory.ts';
import {
  asCaller,
  caller,
  expectSilentConsole,
  keyId,
  serveRpc,
  testServices,
  testTokens,
  transportTo,
} from '../../../test/support/rpc-carriers.ts';
import { ErrorReason } from '../errors.ts';
import { createRpcClient } from './client.ts';

expectSilentConsole();

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
    await using port = await serveRpc(
      testServices({ keys: handlers(KeysService), inference: handlers(InferenceService) }),
    );
    using transport = transportTo(port.url);
    const grpc = grpcClient(port.url);
    for (const method of [...KeysService.methods, ...InferenceService.methods]) {
      const token = await tokenOf(method);
      const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const failure = await callAny(transport, method, headers).then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(failure, method.name).toMatchObject({ reason: ErrorReason.UNAUTHENTICATED_SERVICE });
      const metadata = new Metadata();
      for (const [name, value] of Object.entries(headers)) metadata.set(name, value);
      expect(await grpcCode(grpc, method, metadata), method.name).toBe(status.UNAUTHENTICATED);
    }
    grpc.close();
    expect(handled).toEqual([]);
  });

  test('reveals nothing but its services', async () => {
    await using port = await serveRpc(testServices({}));
    const session = connectHttp2(port.url);
    const paths = ['/', '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo', `/${audience}/Nothing`];
    const statuses = await Promise.all(
      paths.map((path) => rawPost(session, path, { 'content-type': 'application/grpc' }, [])),
    );
    session.close();
    expect(statuses.map(({ status }) => status)).toEqual([404, 404, 404]);
  });
});

describe('of a crowd of calls', () => {
  const path = `/${KeysService.typeName}/GetKey`;
  const headers = { 'content-type': 'application/grpc' };
  /** How many calls without a token have begun there. */
  const refusedAt = ({ lines }: { lines: object[] }): number => lines.filter((line) => 'latencyMs' in line).length;

  test('a hundred begin in a turn of the event loop', async () => {
    await using port = await serveRpc(testServices({}));
    const session = connectHttp2(port.url);
    await once(session, 'remoteSettings');
    const begunByTurn: number[] = [];
    let begun = 0;
    let isWatched = true;
    const turn = (): void => {
      begunByTurn.push(refusedAt(port) - begun);
      begun = refusedAt(port);
      if (isWatched) setImmediate(turn);
    };
    turn();
    const answers = await Promise.all(Array.from({ length: 500 }, () => rawPost(session, path, headers, [])));
    isWatched = false;
    session.close();
    expect(answers.every(({ grpcStatus }) => grpcStatus === `${status.UNAUTHENTICATED}`)).toBe(true);
    expect(Math.max(...begunByTurn)).toBeLessThanOrEqual(100);
  });

  test('those given up before their turn never begin', async () => {
    await using port = await serveRpc(testServices({}));
    const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
      const head = Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, 0]);
      head.writeUInt32BE(stream, 5);
      return Buffer.concat([head, payload]);
    };
    const text = (value: string) => [value.length, ...Buffer.from(value)];
    // RFC 7541, appendix A: POST, http, an authority, a path and a content type.
    const block = Buffer.from([0x83, 0x86, 1, ...text('x'), 4, ...text(path), 15, 16, ...text('application/grpc')]);
    const called = (stream: number) => frame(1, 5, stream, block);
    const cancelled = (stream: number) => frame(3, 0, stream, Buffer.from([0, 0, 0, 8]));
    const given = Array.from({ length: 1_000 }, (_, call) => [called(2 * call + 1), cancelled(2 * call + 1)]).flat();
    const socket = connect(Number(new URL(port.url).port), '127.0.0.1').on('error', () => {});
    socket
      .resume()
      .write(
        Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0)), ...given]),
      );
    await once(socket, 'drain');
    const session = connectHttp2(port.url);
    await rawPost(session, path, headers, []);
    session.close();
    socket.destroy();
    // Some come apart from what gives them up.
    expect(refusedAt(port)).toBeLessThan(100);
  });
});

/** Calls a method of any kind with empty messages, to its end. */
async function callAny(transport: Transport, method: DescMethod, headers: Record<string, string>): Promise<void> {
  if (method.methodKind === 'unary') {
    await transport.unary(method as never, undefined, undefined, headers, {} as never);
    return;
  }
  const requests = async function* () {
    yield {};
  };
  const response = await transport.stream(method as never, undefined, undefined, headers, requests() as never);
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

/** `grpcStatus` is that of an answer to gRPC, whose HTTP status is 200 whatever the outcome. */
type RawAnswer = { status: number | undefined; grpcStatus: string | undefined; body: string };

/** Posts raw bytes, as fast as the server reads them, until it answers or closes the stream. */
function rawPost(
  session: ClientHttp2Session,
  path: string,
  headers: Record<string, string>,
  chunks: Iterable<Buffer>,
): Promise<RawAnswer> {
  const stream = session.request({ ':method': 'POST', ':path': path, ...headers });
  let answered: number | undefined;
  let grpcStatus: string | undefined;
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
      grpcStatus = head['grpc-status']?.toString();
    });
    stream.on('trailers', (trailers) => {
      grpcStatus ??= trailers['grpc-status']?.toString();
    });
    stream.on('data', (chunk) => {
      body += chunk;
    });
    stream.on('error', () => {});
    stream.on('close', () => resolve({ status: answered, grpcStatus, body }));
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
    ['an endless unary message', unary, { 'content-type': 'application/proto' }, () => zeros(1024), { status: 429 }],
    [
      'a streamed message that announces 1 GiB',
      stream,
      { 'content-type': 'application/connect+proto' },
      function* () {
        yield Buffer.from([0, 0x40, 0, 0, 0]);
        yield* zeros(1024);
      },
      { body: expect.stringContaining('"resource_exhausted"') },
    ],
    [
      'a gRPC message that announces 1 GiB',
      stream,
      { 'content-type': 'application/grpc', te: 'trailers' },
      function* () {
        yield Buffer.from([0, 0x40, 0, 0, 0]);
        yield* zeros(1024);
      },
      { grpcStatus: `${status.RESOURCE_EXHAUSTED}` },
    ],
    [
      'a gzip of 256 MiB',
      unary,
      { 'content-type': 'application/proto', 'content-encoding': 'gzip' },
      () => [gzipSync(Buffer.alloc(256 * mebibyte), { level: 1 })],
      { status: 501 },
    ],
    [
      'a gzip without a token',
      unary,
      { 'content-type': 'application/proto', 'content-encoding': 'gzip', authorization: '' },
      () => [gzipSync(Buffer.alloc(64 * mebibyte), { level: 1 })],
      { status: 401 },
    ],
    [
      'an endless unary message without a token',
      unary,
      { 'content-type': 'application/proto', authorization: '' },
      () => zeros(1024),
      { status: 401 },
    ],
  ])('of the kind “%s” is refused in bounded memory', async (_name, path, headers, chunks, refusal) => {
    const handled = vi.fn();
    await using port = await serveRpc(
      testServices({
        keys: {
          getKey() {
            handled();
            return {};
          },
        },
        inference: {
          async *transcribe(requests) {
            for await (const _request of requests) {
              handled();
              yield {};
            }
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
    expect(answer).toMatchObject(refusal);
    expect(handled).not.toHaveBeenCalled();
    expect(growth).toBeLessThan(32 * mebibyte);
  });

  test('leaves the server answering', async () => {
    await using port = await serveRpc(testServices({ keys: { getKey: () => ({ key: { name: 'alive' } }) } }));
    const authorization = `Bearer ${await testTokens('edge').mint(KeysService.typeName, caller)}`;
    const session = connectHttp2(port.url);
    await rawPost(session, unary, { 'content-type': 'application/proto', authorization }, zeros(64));
    const body = Buffer.from(toBinary(GetKeyRequestSchema, create(GetKeyRequestSchema, { keyId })));
    const answer = await rawPost(session, unary, { 'content-type': 'application/proto', authorization }, [body]);
    session.close();
    expect(answer).toMatchObject({ status: 200, body: expect.stringContaining('alive') });
  });

  test('appears as REQUEST_TOO_LARGE to our own client', async () => {
    await using port = await serveRpc(testServices({ keys: { deleteKey: () => ({}) } }));
    using transport = transportTo(port.url);
    const call = createRpcClient(KeysService, transport).deleteKey({ keyId: 'x'.repeat(5 * mebibyte) }, asCaller());
    await expect(call).rejects.toMatchObject({ reason: ErrorReason.REQUEST_TOO_LARGE });
  });
});

test.each([
  ['a field that there is not', { name: 'a key', spend_cap_usd: 5 }, 'spend_cap_usd'],
  ['a value that an enum has not', { name: 'a key', keyType: 'KEY_TYPE_READ_ONLY' }, 'KEY_TYPE_READ_ONLY'],
])('%s in JSON is refused by its name, not ignored', async (_what, request, named) => {
  const createKey = vi.fn(() => ({}));
  await using port = await serveRpc(testServices({ keys: { createKey } }));
  const authorization = `Bearer ${await testTokens('edge').mint(KeysService.typeName, caller)}`;
  const session = connectHttp2(port.url);
  const path = `/${KeysService.typeName}/CreateKey`;
  const headers = { 'content-type': 'application/json', authorization };
  const answer = await rawPost(session, path, headers, [Buffer.from(JSON.stringify(request))]);
  session.close();
  expect(answer).toMatchObject({ status: 400, body: expect.stringContaining('invalid_argument') });
  expect(answer.body).toContain(named);
  expect(createKey).not.toHaveBeenCalled();
});

test('an unknown field in the JSON of a stream is refused by its name as well', async () => {
  await using port = await serveRpc(testServices({}));
  const authorization = `Bearer ${await testTokens('edge').mint(InferenceService.typeName, caller)}`;
  const message = Buffer.from(JSON.stringify({ operation: 'OPERATION_CHAT_COMPLETIONS', spend_cap_usd: 5 }));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  const session = connectHttp2(port.url);
  const headers = { 'content-type': 'application/connect+json', authorization };
  const answer = await rawPost(session, `/${InferenceService.typeName}/Invoke`, headers, [head, message]);
  session.close();
  expect(answer.body).toMatch(/invalid_argument.*spend_cap_usd/);
});

test('a compressed message of a stream is refused as such, not as an RPC that there is not', async () => {
  await using port = await serveRpc(testServices({ inference: { async *invoke() {} } }));
  const authorization = `Bearer ${await testTokens('edge').mint(InferenceService.typeName, caller)}`;
  const message = gzipSync(Buffer.alloc(0));
  const head = Buffer.from([1, 0, 0, 0, message.length]);
  const session = connectHttp2(port.url);
  const headers = { 'content-type': 'application/connect+proto', 'connect-content-encoding': 'gzip', authorization };
  const answer = await rawPost(session, `/${InferenceService.typeName}/Invoke`, headers, [head, message]);
  session.close();
  expect(answer.body).toContain('Compressed messages are not accepted.');
});

test.each([
  ['application/grpc', { 'grpc-timeout': '8760H' }],
  ['application/proto', { 'connect-timeout-ms': '9999999999' }],
])('a deadline further away than timers reach has not passed: %s', async (type, deadline) => {
  const getKey = async () => {
    await delay(5);
    return {};
  };
  await using port = await serveRpc(testServices({ keys: { getKey } }));
  const authorization = `Bearer ${await testTokens('edge').mint(KeysService.typeName, caller)}`;
  const message = Buffer.from(toBinary(GetKeyRequestSchema, create(GetKeyRequestSchema, { keyId })));
  const head = type === 'application/grpc' ? Buffer.from([0, 0, 0, 0, message.length]) : Buffer.alloc(0);
  const session = connectHttp2(port.url);
  const headers = { 'content-type': type, authorization, ...deadline };
  const answer = await rawPost(session, `/${KeysService.typeName}/GetKey`, headers, [Buffer.concat([head, message])]);
  session.close();
  expect(answer).toMatchObject({ status: 200, grpcStatus: type === 'application/grpc' ? '0' : undefined });
});
