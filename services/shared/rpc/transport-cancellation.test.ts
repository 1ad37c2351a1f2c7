import type { HandlerContext } from '@connectrpc/connect';
import { describe, expect, test, vi } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import {
  aborted,
  asCaller,
  carriers,
  carry,
  collect,
  expectSilentConsole,
  failureOf,
  invocation,
  keyId,
  patience,
  testServices,
} from '../../../test/support/rpc-carriers.ts';
import { ErrorReason } from '../errors.ts';

/** A handler's trace: what it was given and how it ended. */
class Trace {
  context: HandlerContext | undefined;
  cleanedUp = false;
}

/** A stream that waits after its first byte until its call is aborted. */
async function* oneByteThenWait(trace: Trace, context: HandlerContext) {
  trace.context = context;
  try {
    yield { body: new Uint8Array([1]) };
    await aborted(context.signal);
  } finally {
    trace.cleanedUp = true;
  }
}

expectSilentConsole();

describe.each(carriers)('over %s', (carrier) => {
  describe('cancellation', () => {
    test('of a unary call reaches the handler and fails at once', async () => {
      const trace = new Trace();
      await using rpc = await carry(
        carrier,
        testServices({
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

    test('of a unary call whose message has not left yet has no effect, least of all through an empty message', async () => {
      const limits: number[] = [];
      const listKeys = ({ page }: { page?: { limit: number } }) => {
        limits.push(page?.limit ?? 0);
        return {};
      };
      await using rpc = await carry(carrier, testServices({ keys: { listKeys } }));
      const keys = rpc.client(KeysService);
      const client = new AbortController();
      const calls = Array.from({ length: 10 }, () =>
        keys.listKeys({ page: { limit: 5 } }, { ...asCaller(), signal: client.signal }),
      );
      // While they wait for their token and connection, if there is any to wait for.
      client.abort();
      await Promise.allSettled(calls);
      await keys.listKeys({ page: { limit: 7 } }, asCaller());
      await keys.listKeys({ page: { limit: 7 } }, asCaller());
      expect(limits.filter((limit) => limit !== 5)).toEqual([7, 7]);
    });

    test('of more than a thousand calls at once leaves the others of their connection alone', async () => {
      // Above Node's limit of 1,000; still more would keep both ends, which are one process here, from answering each other's pings.
      const count = 1_200;
      let running = 0;
      const finish = Promise.withResolvers<void>();
      await using rpc = await carry(
        carrier,
        testServices({
          keys: {
            async getKey(_request, context) {
              running += 1;
              await aborted(context.signal);
              throw context.signal.reason;
            },
            async deleteKey() {
              await finish.promise;
              return {};
            },
          },
        }),
      );
      const keys = rpc.client(KeysService);
      const patient = { ...asCaller(), timeoutMs: 60_000 };
      const lasting = keys.deleteKey({ keyId }, patient);
      const crowd = new AbortController();
      const options = { ...patient, signal: crowd.signal };
      const failures = Array.from({ length: count }, () => failureOf(keys.getKey({ keyId }, options)));
      await vi.waitFor(() => expect(running).toBe(count), { timeout: 30_000 });
      crowd.abort();
      for (const { reason } of await Promise.all(failures)) expect(reason).toBe(ErrorReason.CANCELLED);
      // After all resets on the same connection.
      const last = keys.deleteKey({ keyId }, patient);
      finish.resolve();
      await Promise.all([lasting, last]);
    });

    test('before the call prevents it', async () => {
      const getKey = vi.fn(() => ({}));
      await using rpc = await carry(carrier, testServices({ keys: { getKey } }));
      const options = { ...asCaller(), signal: AbortSignal.abort() };
      expect((await failureOf(rpc.client(KeysService).getKey({ keyId }, options))).reason).toBe(ErrorReason.CANCELLED);
      expect(getKey).not.toHaveBeenCalled();
    });

    test('of a stream ends a handler that waits for its signal, and its finally runs', async () => {
      const trace = new Trace();
      await using rpc = await carry(
        carrier,
        testServices({ inference: { invoke: (_request, context) => oneByteThenWait(trace, context) } }),
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

    test('of a stream runs the finally of a handler suspended at a yield', async () => {
      const trace = new Trace();
      await using rpc = await carry(
        carrier,
        testServices({
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
        testServices({ inference: { invoke: (_request, context) => oneByteThenWait(trace, context) } }),
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
        testServices({
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
        testServices({
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
        testServices({
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
      // On a busy machine a deadline may pass on the way to the handler.
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
      await using rpc = await carry(
        carrier,
        testServices({ inference: { invoke: (_request, context) => oneByteThenWait(trace, context) } }),
      );
      for (let timeoutMs = 100; trace.context === undefined; timeoutMs *= 2) {
        const stream = rpc.client(InferenceService).invoke(invocation, { ...asCaller(), timeoutMs });
        expect((await failureOf(collect(stream))).reason).toBe(ErrorReason.DEADLINE_EXCEEDED);
      }
      await vi.waitFor(() => expect(trace.cleanedUp).toBe(true), patience);
    });

    test('free the client of a handler that ignores its signal', async () => {
      const never = new Promise<never>(() => {});
      await using rpc = await carry(carrier, testServices({ keys: { getKey: () => never } }));
      const failure = await failureOf(rpc.client(KeysService).getKey({ keyId }, { ...asCaller(), timeoutMs: 50 }));
      expect(failure.reason).toBe(ErrorReason.DEADLINE_EXCEEDED);
    });

    test('are ten seconds for a unary call and none for a stream, unless given', async () => {
      const left: (number | undefined)[] = [];
      await using rpc = await carry(
        carrier,
        testServices({
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
});
