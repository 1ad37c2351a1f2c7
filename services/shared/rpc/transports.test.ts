import { create } from '@bufbuild/protobuf';
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from 'vitest';
import { GetKeyRequestSchema, KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { type Carried, carriers, carry } from '../../../test/support/rpc-carriers.ts';
import { ErrorReason, type GatewayError, type GatewayErrorDetails, gatewayError } from '../errors.ts';
import { type Caller, CallerKind, CallerSchema, callerContext, callerOf, Role } from './caller.ts';
import { rpcService } from './rpc-service.ts';

const keyId = '0197f2a4-0000-7000-8000-000000000001';
const caller: Caller = create(CallerSchema, {
  kind: CallerKind.API_KEY,
  tenantId: 'tenant',
  userId: 'user',
  role: Role.ADMIN,
  ip: '192.0.2.1',
  requestId: 'req_1',
});
const asCaller = () => ({ contextValues: callerContext(caller) });
const invocation = { operation: Operation.CHAT_COMPLETIONS, body: new Uint8Array([1]) };

/** The services under test with the given handlers, as the edge calls them. */
const services = (handlers: {
  keys?: Partial<ServiceImpl<typeof KeysService>>;
  inference?: Partial<ServiceImpl<typeof InferenceService>>;
}) => [
  rpcService(KeysService, handlers.keys ?? {}, { callers: ['edge'] }),
  rpcService(InferenceService, handlers.inference ?? {}, { callers: ['edge'] }),
];

/** What a call failed with; fails when it did not. */
async function failureOf(call: Promise<unknown>): Promise<GatewayError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toHaveProperty('name', 'GatewayError');
  return error as GatewayError;
}

async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const messages: T[] = [];
  for await (const message of stream) messages.push(message);
  return messages;
}

/** For what comes to pass in its own time on a busy machine. */
const patience = { timeout: 30_000 };

const aborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve());
  });

/** A handler's trace: what it was given and how it ended. */
class Trace {
  context: HandlerContext | undefined;
  cleanedUp = false;
}

// A failure that connect-fastify writes to the console is one which our interceptors missed.
let consoleError: MockInstance;
beforeEach(() => {
  consoleError = vi.spyOn(console, 'error');
});
afterEach(() => {
  expect(consoleError).not.toHaveBeenCalled();
  consoleError.mockRestore();
});

describe.each(carriers)('over %s', (carrier) => {
  test('a unary call carries its message, its caller and its answer', async () => {
    let seen: unknown;
    await using rpc = await carry(
      carrier,
      services({
        keys: {
          getKey(request, context) {
            seen = { type: request.$typeName, keyId: request.keyId, caller: callerOf(context) };
            return { key: { id: request.keyId, name: 'build' } };
          },
        },
      }),
    );
    const answer = await rpc.client(KeysService).getKey({ keyId }, asCaller());
    expect(answer.$typeName).toBe('modelgateway.keys.v1.GetKeyResponse');
    expect(answer.key).toMatchObject({ $typeName: 'modelgateway.keys.v1.Key', id: keyId, name: 'build' });
    expect(seen).toEqual({ type: GetKeyRequestSchema.typeName, keyId, caller });
  });

  test('a server stream arrives whole and in order', async () => {
    await using rpc = await carry(
      carrier,
      services({
        inference: {
          async *invoke(request) {
            yield { head: { status: 200 } };
            for (let index = 0; index < 100; index++) yield { body: new Uint8Array([...request.body, index]) };
            yield { end: { success: true } };
          },
        },
      }),
    );
    const pieces = await collect(rpc.client(InferenceService).invoke(invocation, asCaller()));
    expect(pieces).toHaveLength(102);
    expect(pieces[0]?.head?.status).toBe(200);
    expect(pieces.slice(1, 101).map(({ body }) => [...body])).toEqual([...Array(100).keys()].map((n) => [1, n]));
    expect(pieces[101]?.end?.success).toBe(true);
  });

  test('both sides of a bidirectional stream talk in turn, and the client’s end reaches the handler', async () => {
    await using rpc = await carry(
      carrier,
      services({
        inference: {
          async *transcribe(requests) {
            for await (const { message } of requests)
              yield { message: { case: 'eventJson', value: `${message.value}!` } };
            yield { message: { case: 'close', value: { code: 1000 } } };
          },
        },
      }),
    );
    let heard = () => {};
    const requests = async function* () {
      for (const value of ['a', 'b', 'c']) {
        const answered = new Promise<void>((resolve) => {
          heard = resolve;
        });
        yield { message: { case: 'eventJson' as const, value } };
        await answered;
      }
    };
    const answers: unknown[] = [];
    for await (const { message } of rpc.client(InferenceService).transcribe(requests(), asCaller())) {
      answers.push(message.case === 'close' ? message.value.code : message.value);
      heard();
    }
    expect(answers).toEqual(['a!', 'b!', 'c!', 1000]);
  });

  test('a handler may end while its client still talks, and all of its answer arrives', async () => {
    await using rpc = await carry(
      carrier,
      services({
        inference: {
          async *transcribe(requests) {
            await requests[Symbol.asyncIterator]().next();
            for (let index = 0; index < 100; index++) {
              yield { message: { case: 'eventJson', value: `${index}`.padEnd(65_536) } };
            }
          },
        },
      }),
    );
    let requestsClosed = false;
    const client = new AbortController();
    const requests = async function* () {
      try {
        yield { message: { case: 'eventJson' as const, value: 'a' } };
        await aborted(client.signal);
      } finally {
        requestsClosed = true;
      }
    };
    const answers = await collect(rpc.client(InferenceService).transcribe(requests(), asCaller()));
    expect(answers.map(({ message }) => Number(message.value))).toEqual([...Array(100).keys()]);
    client.abort();
    await vi.waitFor(() => expect(requestsClosed).toBe(true), patience);
  });

  test('a call without a caller is refused', async () => {
    await using rpc = await carry(
      carrier,
      services({ keys: { getKey: (_request, context) => ({ key: { id: callerOf(context).userId } }) } }),
    );
    const failure = await failureOf(rpc.client(KeysService).getKey({ keyId }));
    expect(failure.reason).toBe(ErrorReason.UNAUTHENTICATED_SERVICE);
  });

  describe('cancellation', () => {
    test('of a unary call reaches the handler and fails at once', async () => {
      const trace = new Trace();
      await using rpc = await carry(
        carrier,
        services({
          keys: {
            async getKey(_request, context) {
              trace.context = context;
              await aborted(context.signal);
              trace.cleanedUp = true;
              throw context.signal.reason;
            },
          },
        }),
      );
      const client = new AbortController();
      const failure = failureOf(rpc.client(KeysService).getKey({ keyId }, { ...asCaller(), signal: client.signal }));
      await vi.waitFor(() => expect(trace.context).toBeDefined(), patience);
      client.abort();
      expect(await failure).toMatchObject({ reason: ErrorReason.CANCELLED, message: 'The request was cancelled.' });
      await vi.waitFor(() => expect(trace.cleanedUp).toBe(true), patience);
    });

    test('before the call keeps it from being made', async () => {
      const getKey = vi.fn(() => ({}));
      await using rpc = await carry(carrier, services({ keys: { getKey } }));
      const options = { ...asCaller(), signal: AbortSignal.abort() };
      expect((await failureOf(rpc.client(KeysService).getKey({ keyId }, options))).reason).toBe(ErrorReason.CANCELLED);
      expect(getKey).not.toHaveBeenCalled();
    });

    test('of a stream ends a handler that waits for its signal, and its finally runs', async () => {
      const trace = new Trace();
      await using rpc = await carry(
        carrier,
        services({
          inference: {
            async *invoke(_request, context) {
              trace.context = context;
              try {
                yield { body: new Uint8Array([1]) };
                await aborted(context.signal);
              } finally {
                trace.cleanedUp = true;
              }
            },
          },
        }),
      );
      const client = new AbortController();
      const stream = rpc.client(InferenceService).invoke(invocation, { ...asCaller(), signal: client.signal });
      const reader = stream[Symbol.asyncIterator]();
      await reader.next();
      const failure = failureOf(reader.next());
      client.abort();
      expect(await failure).toMatchObject({ reason: ErrorReason.CANCELLED, message: 'The request was cancelled.' });
      await vi.waitFor(() => expect(trace.cleanedUp).toBe(true), patience);
      expect(trace.context!.signal.aborted).toBe(true);
    });

    test('of a stream runs the finally of a handler that stands at a yield', async () => {
      const trace = new Trace();
      await using rpc = await carry(
        carrier,
        services({
          inference: {
            async *invoke() {
              try {
                for (;;) yield { body: new Uint8Array(65_536) };
              } finally {
                trace.cleanedUp = true;
              }
            },
          },
        }),
      );
      const client = new AbortController();
      const stream = rpc.client(InferenceService).invoke(invocation, { ...asCaller(), signal: client.signal });
      const reader = stream[Symbol.asyncIterator]();
      await reader.next();
      client.abort();
      await vi.waitFor(() => expect(trace.cleanedUp).toBe(true), patience);
    });

    test('by leaving a for await reaches the handler', async () => {
      const trace = new Trace();
      await using rpc = await carry(
        carrier,
        services({
          inference: {
            async *invoke(_request, context) {
              trace.context = context;
              try {
                yield { body: new Uint8Array([1]) };
                await aborted(context.signal);
              } finally {
                trace.cleanedUp = true;
              }
            },
          },
        }),
      );
      for await (const _piece of rpc.client(InferenceService).invoke(invocation, asCaller())) break;
      await vi.waitFor(() => expect(trace.cleanedUp).toBe(true), patience);
      expect(trace.context!.signal.aborted).toBe(true);
    });

    test('of a bidirectional stream ends a handler that waits for the next message', async () => {
      const trace = new Trace();
      let requestsClosed = false;
      await using rpc = await carry(
        carrier,
        services({
          inference: {
            async *transcribe(requests, context) {
              trace.context = context;
              try {
                for await (const { message } of requests)
                  yield { message: { case: 'eventJson', value: `${message.value}` } };
              } finally {
                trace.cleanedUp = true;
              }
            },
          },
        }),
      );
      const client = new AbortController();
      const requests = async function* () {
        try {
          yield { message: { case: 'eventJson' as const, value: 'a' } };
          await aborted(client.signal);
        } finally {
          requestsClosed = true;
        }
      };
      const stream = rpc.client(InferenceService).transcribe(requests(), { ...asCaller(), signal: client.signal });
      const reader = stream[Symbol.asyncIterator]();
      await reader.next();
      const failure = failureOf(reader.next());
      client.abort();
      expect((await failure).reason).toBe(ErrorReason.CANCELLED);
      await vi.waitFor(() => expect([trace.cleanedUp, requestsClosed]).toEqual([true, true]), patience);
    });

    test('a call that ended well fires the handler’s signal too', async () => {
      const trace = new Trace();
      await using rpc = await carry(
        carrier,
        services({
          keys: {
            getKey(_request, context) {
              trace.context = context;
              expect(context.signal.aborted).toBe(false);
              return {};
            },
          },
        }),
      );
      await rpc.client(KeysService).getKey({ keyId }, asCaller());
      await aborted(trace.context!.signal);
    });
  });

  describe('deadlines', () => {
    test('reach the handler of a unary call and fail it in time', async () => {
      const trace = new Trace();
      let timeoutMs = 50;
      let leftMs = 0;
      await using rpc = await carry(
        carrier,
        services({
          keys: {
            async getKey(_request, context) {
              trace.context = context;
              leftMs = context.timeoutMs()!;
              await aborted(context.signal);
              throw context.signal.reason;
            },
          },
        }),
      );
      // On a busy machine a deadline may end on the way to the handler.
      while (leftMs <= 0) {
        timeoutMs *= 2;
        const failure = await failureOf(rpc.client(KeysService).getKey({ keyId }, { ...asCaller(), timeoutMs }));
        expect(failure).toMatchObject({
          reason: ErrorReason.DEADLINE_EXCEEDED,
          message: 'The gateway did not answer in time.',
        });
      }
      expect(leftMs).toBeLessThanOrEqual(timeoutMs);
      await aborted(trace.context!.signal);
    });

    test('fail a stream in time and run its finally', async () => {
      const trace = new Trace();
      let started = false;
      await using rpc = await carry(
        carrier,
        services({
          inference: {
            async *invoke(_request, context) {
              started = true;
              try {
                yield { body: new Uint8Array([1]) };
                await aborted(context.signal);
              } finally {
                trace.cleanedUp = true;
              }
            },
          },
        }),
      );
      for (let timeoutMs = 100; !started; timeoutMs *= 2) {
        const stream = rpc.client(InferenceService).invoke(invocation, { ...asCaller(), timeoutMs });
        expect((await failureOf(collect(stream))).reason).toBe(ErrorReason.DEADLINE_EXCEEDED);
      }
      await vi.waitFor(() => expect(trace.cleanedUp).toBe(true), patience);
    });

    test('free the client of a handler that ignores its signal', async () => {
      const never = new Promise<never>(() => {});
      await using rpc = await carry(carrier, services({ keys: { getKey: () => never } }));
      const failure = await failureOf(rpc.client(KeysService).getKey({ keyId }, { ...asCaller(), timeoutMs: 50 }));
      expect(failure.reason).toBe(ErrorReason.DEADLINE_EXCEEDED);
    });

    test('are ten seconds for a unary call and none for a stream, unless given', async () => {
      const left: (number | undefined)[] = [];
      await using rpc = await carry(
        carrier,
        services({
          keys: {
            getKey(_request, context) {
              left.push(context.timeoutMs());
              return {};
            },
          },
          inference: {
            async *invoke(_request, context) {
              left.push(context.timeoutMs());
              yield {};
            },
          },
        }),
      );
      await rpc.client(KeysService).getKey({ keyId }, asCaller());
      await rpc.client(KeysService).getKey({ keyId }, { ...asCaller(), timeoutMs: 0 });
      await collect(rpc.client(InferenceService).invoke(invocation, asCaller()));
      expect(left[0]).toBeGreaterThan(5_000);
      expect(left[0]).toBeLessThanOrEqual(10_000);
      expect(left.slice(1)).toEqual([undefined, undefined]);
    });
  });

  describe('errors', () => {
    const reasons = Object.values(ErrorReason);
    const calls = (rpc: Carried) => [
      () => rpc.client(KeysService).getKey({ keyId }, asCaller()),
      () => collect(rpc.client(InferenceService).invoke(invocation, asCaller())),
    ];
    const details: GatewayErrorDetails = {
      param: 'model',
      retryAfterMs: 1_500,
      resetsAtMs: Date.UTC(2026, 11, 1),
      upstream: { status: 429, type: 'tokens', code: 'rate_limit_exceeded' },
      code: 'invalid_value',
    };

    test('arrive with their reason, text and details, and without their internal text', async () => {
      const failing: { reason?: ErrorReason } = {};
      const thrown = () =>
        gatewayError(failing.reason!, 'Public text, ünïcode.', {
          ...details,
          internal: 'SECRET',
          cause: new Error('SECRET'),
        });
      await using rpc = await carry(
        carrier,
        services({
          keys: {
            getKey() {
              throw thrown();
            },
          },
          inference: {
            // biome-ignore lint/correctness/useYield: it fails before the first message.
            async *invoke() {
              throw thrown();
            },
          },
        }),
      );
      for (failing.reason of reasons) {
        rpc.lines.length = 0;
        for (const call of calls(rpc)) {
          const failure = await failureOf(call());
          expect(failure.reason).toBe(failing.reason);
          expect(failure.message).toBe('Public text, ünïcode.');
          expect(failure.details).toEqual(details);
          expect(failure.cause).toBeUndefined();
        }
        expect(rpc.lines.filter(({ internal }) => internal === 'SECRET')).toHaveLength(2);
      }
    });

    test('with no details arrive with none', async () => {
      await using rpc = await carry(
        carrier,
        services({
          keys: {
            getKey() {
              throw gatewayError(ErrorReason.NOT_FOUND, 'No such key.');
            },
          },
        }),
      );
      const failure = await failureOf(rpc.client(KeysService).getKey({ keyId }, asCaller()));
      expect(failure).toMatchObject({ reason: ErrorReason.NOT_FOUND, message: 'No such key.' });
      expect(failure.details).toEqual({});
    });

    test('after the first messages of a stream arrive after them', async () => {
      await using rpc = await carry(
        carrier,
        services({
          inference: {
            async *invoke() {
              yield { body: new Uint8Array([1]) };
              throw gatewayError(ErrorReason.MODEL_SUNSET, 'Gone.');
            },
          },
        }),
      );
      const reader = rpc.client(InferenceService).invoke(invocation, asCaller())[Symbol.asyncIterator]();
      expect((await reader.next()).value.body).toEqual(new Uint8Array([1]));
      expect((await failureOf(reader.next())).reason).toBe(ErrorReason.MODEL_SUNSET);
    });

    test('that nobody foresaw hide their text and are logged in full', async () => {
      await using rpc = await carry(
        carrier,
        services({
          keys: {
            getKey() {
              throw new Error('password of postgres is hunter2');
            },
          },
          inference: {
            async *invoke() {
              yield {};
              throw new TypeError('password of postgres is hunter2');
            },
          },
        }),
      );
      for (const call of calls(rpc)) {
        const failure = await failureOf(call());
        expect(failure.reason).toBe(ErrorReason.INTERNAL);
        expect(JSON.stringify([failure.message, failure.details, String(failure.cause)])).not.toContain('hunter2');
      }
      const logged = rpc.lines.filter(({ level }) => level === 50);
      expect(logged).toHaveLength(2);
      expect(logged[0]).toMatchObject({
        method: 'modelgateway.keys.v1.KeysService/GetKey',
        requestId: 'req_1',
        tenantId: 'tenant',
        err: { message: 'password of postgres is hunter2', stack: expect.stringContaining('transports.test') },
      });
    });

    test('an RPC that is not built answers UNIMPLEMENTED', async () => {
      await using rpc = await carry(carrier, services({}));
      for (const call of calls(rpc)) {
        expect(await failureOf(call())).toMatchObject({
          reason: ErrorReason.UNIMPLEMENTED,
          message: 'This operation is not built yet.',
        });
      }
    });
  });

  describe('validation', () => {
    test('refuses a bad field by its path before the handler sees it', async () => {
      const getKey = vi.fn(() => ({}));
      const listKeys = vi.fn(() => ({}));
      await using rpc = await carry(carrier, services({ keys: { getKey, listKeys } }));
      const keys = rpc.client(KeysService);
      const failure = await failureOf(keys.getKey({ keyId: 'x' }, asCaller()));
      expect(failure).toMatchObject({ reason: ErrorReason.INVALID_REQUEST, details: { param: 'key_id' } });
      expect(failure.message).toMatch(/`key_id`: .*UUID/i);
      const nested = await failureOf(keys.listKeys({ page: { limit: 101 } }, asCaller()));
      expect(nested).toMatchObject({ reason: ErrorReason.INVALID_REQUEST, details: { param: 'page.limit' } });
      expect([getKey.mock.calls.length, listKeys.mock.calls.length]).toEqual([0, 0]);
    });

    test('refuses a bad message of a stream', async () => {
      let received = 0;
      await using rpc = await carry(
        carrier,
        services({
          inference: {
            async *transcribe(requests) {
              for await (const { message } of requests) {
                received++;
                yield { message: { case: 'eventJson', value: `${message.value}` } };
              }
            },
          },
        }),
      );
      const requests = async function* () {
        yield { message: { case: 'eventJson' as const, value: 'a' } };
        yield {};
      };
      const failure = await failureOf(collect(rpc.client(InferenceService).transcribe(requests(), asCaller())));
      expect(failure).toMatchObject({ reason: ErrorReason.INVALID_REQUEST, details: { param: 'message' } });
      expect(received).toBe(1);
    });
  });
});
