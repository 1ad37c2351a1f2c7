import { create } from '@bufbuild/protobuf';
import type { HandlerContext, Interceptor, Transport } from '@connectrpc/connect';
import { createClient } from '@connectrpc/connect';
import { Registry } from 'prom-client';
import { describe, expect, test } from 'vitest';
import { GetKeyResponseSchema, KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService, InvokeRequestSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { systemClock } from '../clock.ts';
import { ErrorReason, gatewayError } from '../errors.ts';
import { createCallReport } from './call-report.ts';
import { createRpcClient } from './client.ts';
import { createLocalTransport } from './local-transport.ts';
import { createRpcMetrics } from './rpc-metrics.ts';
import { type RpcService, rpcService } from './rpc-service.ts';
import { validateMessage } from './validation.ts';

const keyId = '0197f2a4-0000-7000-8000-000000000001';

function localTransport(services: RpcService[], interceptors?: Interceptor[], registry = new Registry()) {
  const { logger } = logCollector('info');
  const report = createCallReport({ logger, clock: systemClock, metrics: createRpcMetrics(registry) });
  return createLocalTransport(services, { report, validate: validateMessage, interceptors });
}

test('messages are passed on as they are, not copied', async () => {
  const answer = create(GetKeyResponseSchema, { key: { name: 'one' } });
  let received: unknown;
  const transport = localTransport([
    rpcService(KeysService, { getKey: () => answer }),
    rpcService(
      InferenceService,
      {
        async *invoke(request) {
          received = request;
          yield {};
        },
      },
      { validateLocally: false },
    ),
  ]);
  expect(await createRpcClient(KeysService, transport).getKey({ keyId })).toBe(answer);
  const request = create(InvokeRequestSchema, {});
  for await (const _piece of createRpcClient(InferenceService, transport).invoke(request));
  expect(received).toBe(request);
});

test('headers and trailers are there for those who read them, of streams too', async () => {
  const answer = ({ requestHeader, responseHeader, responseTrailer }: HandlerContext) => {
    responseHeader.set('x-echo', requestHeader.get('x-ask') ?? '');
    responseTrailer.set('x-after', '2');
  };
  const transport = localTransport([
    rpcService(KeysService, {
      getKey(_request, context) {
        answer(context);
        return {};
      },
    }),
    rpcService(
      InferenceService,
      {
        async *invoke(_request, context) {
          answer(context);
          yield {};
        },
      },
      { validateLocally: false },
    ),
  ]);
  const seen: Headers[] = [];
  const see = (headers: Headers) => void seen.push(headers);
  const options = { headers: { 'x-ask': '1' }, onHeader: see, onTrailer: see };
  await createRpcClient(KeysService, transport).getKey({ keyId }, options);
  for await (const _piece of createRpcClient(InferenceService, transport).invoke({}, options));
  const [one, two] = [{ 'x-echo': '1' }, { 'x-after': '2' }];
  expect(seen.map((headers) => Object.fromEntries(headers))).toEqual([one, two, one, two]);
});

describe('interceptors', () => {
  const trace: string[] = [];
  const tracing =
    (name: string): Interceptor =>
    (next) =>
    async (request) => {
      trace.push(`${name} in`);
      request.header.append('x-path', name);
      const response = await next(request);
      trace.push(`${name} out`);
      return response;
    };
  const services = [
    rpcService(KeysService, {
      getKey: (_request, context) => ({ key: { name: context.requestHeader.get('x-path')! } }),
    }),
    rpcService(
      InferenceService,
      {
        async *invoke(request, context) {
          yield { body: request.body, head: { model: context.requestHeader.get('x-path')! } };
        },
        async *transcribe(requests) {
          for await (const { message } of requests) yield { message: { case: 'eventJson', value: `${message.value}` } };
        },
      },
      { validateLocally: false },
    ),
  ];
  const intercepted = () => localTransport(services, [tracing('a'), tracing('b')]);

  test('run once around a unary call, the first outermost', async () => {
    trace.length = 0;
    const answer = await createRpcClient(KeysService, intercepted()).getKey({ keyId });
    expect(answer.key?.name).toBe('a, b');
    expect(trace).toEqual(['a in', 'b in', 'b out', 'a out']);
  });

  test('run once around each kind of stream', async () => {
    trace.length = 0;
    const inference = createRpcClient(InferenceService, intercepted());
    for await (const { head, body } of inference.invoke({ body: new Uint8Array([7]) })) {
      expect([head?.model, ...body]).toEqual(['a, b', 7]);
    }
    const events: unknown[] = [];
    const requests = async function* () {
      yield { message: { case: 'eventJson' as const, value: 'x' } };
    };
    for await (const { message } of inference.transcribe(requests())) events.push(message.value);
    expect(events).toEqual(['x']);
    expect(trace).toEqual([...'ab'].flatMap(() => ['a in', 'b in', 'b out', 'a out']));
  });

  test('may refuse a call', async () => {
    const refusing: Interceptor = () => async () => {
      throw gatewayError(ErrorReason.OVERLOADED, 'Not now.');
    };
    const transport = localTransport(services, [refusing]);
    await expect(createRpcClient(KeysService, transport).getKey({ keyId })).rejects.toMatchObject({
      reason: ErrorReason.OVERLOADED,
    });
  });
});

test('Connect’s own client works with it too', async () => {
  const transport: Transport = localTransport([
    rpcService(
      InferenceService,
      {
        async *invoke({ body }) {
          for (const byte of body) yield { body: new Uint8Array([byte]) };
        },
      },
      { validateLocally: false },
    ),
  ]);
  const bytes: number[] = [];
  for await (const { body } of createClient(InferenceService, transport).invoke({ body: new Uint8Array([1, 2, 3]) })) {
    bytes.push(...body);
  }
  expect(bytes).toEqual([1, 2, 3]);
});

test('each call is measured once, by service, method and code', async () => {
  const registry = new Registry();
  const transport = localTransport(
    [
      rpcService(KeysService, {
        getKey: () => ({}),
        deleteKey() {
          throw gatewayError(ErrorReason.NOT_FOUND, 'No such key.');
        },
      }),
      rpcService(
        InferenceService,
        {
          async *invoke() {
            yield {};
            yield {};
          },
        },
        { validateLocally: false },
      ),
    ],
    undefined,
    registry,
  );
  const keys = createRpcClient(KeysService, transport);
  await keys.getKey({ keyId });
  await keys.getKey({ keyId });
  await expect(keys.getKey({ keyId: 'x' })).rejects.toBeDefined();
  await expect(keys.deleteKey({ keyId })).rejects.toBeDefined();
  const inference = createRpcClient(InferenceService, transport);
  for await (const _piece of inference.invoke({}));
  for await (const _piece of inference.invoke({})) break;
  const text = await registry.metrics();
  const counts = [...text.matchAll(/_count\{service="[\w.]+\.(\w+)",method="(\w+)",code="(\w+)"\} (\d+)/g)];
  expect(counts.map(([, ...parts]) => parts.join(' ')).sort()).toEqual([
    'InferenceService Invoke canceled 1',
    'InferenceService Invoke ok 1',
    'KeysService DeleteKey not_found 1',
    'KeysService GetKey invalid_argument 1',
    'KeysService GetKey ok 2',
  ]);
});

test('while the database is away, its absence is logged once for each method, and not for every call', async () => {
  const { logger, lines } = logCollector('info');
  const report = createCallReport({ logger, clock: systemClock });
  const away = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', syscall: 'connect' });
  const fail = () => Promise.reject(away);
  const service = rpcService(KeysService, { getKey: fail, deleteKey: fail });
  const keys = createRpcClient(KeysService, createLocalTransport([service], { report, validate: validateMessage }));
  for (let call = 0; call < 5; call += 1) {
    await expect(keys.getKey({ keyId })).rejects.toThrow();
    await expect(keys.deleteKey({ keyId })).rejects.toThrow();
  }
  const internal = expect.stringContaining('connect ECONNREFUSED');
  expect(lines).toMatchObject([
    { level: 40, msg: expect.stringContaining('KeysService/GetKey'), err: { internal } },
    { level: 40, msg: expect.stringContaining('KeysService/DeleteKey'), err: { internal } },
  ]);
});
