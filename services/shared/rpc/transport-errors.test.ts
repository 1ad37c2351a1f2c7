import { describe, expect, test, vi } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import {
  asCaller,
  type Carried,
  caller,
  carriers,
  carry,
  collect,
  expectSilentConsole,
  failureOf,
  invocation,
  keyId,
  testServices,
} from '../../../test/support/rpc-carriers.ts';
import { ErrorReason, type GatewayErrorDetails, gatewayError } from '../errors.ts';

expectSilentConsole();

describe.each(carriers)('over %s', (carrier) => {
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
        testServices({
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
        testServices({
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
        testServices({
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

    test('that are unexpected hide their text and are logged in full', async () => {
      await using rpc = await carry(
        carrier,
        testServices({
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
        tenantId: caller.tenantId,
        err: { message: 'password of postgres is hunter2', stack: expect.stringContaining('transport-errors.test') },
      });
    });

    test('an RPC that is not built answers UNIMPLEMENTED', async () => {
      await using rpc = await carry(carrier, testServices({}));
      for (const call of calls(rpc)) {
        expect(await failureOf(call())).toMatchObject({
          reason: ErrorReason.UNIMPLEMENTED,
          message: 'This operation is not implemented.',
        });
      }
    });
  });

  describe('validation', () => {
    test('refuses a bad field by its path before the handler sees it', async () => {
      const getKey = vi.fn(() => ({}));
      const listKeys = vi.fn(() => ({}));
      await using rpc = await carry(carrier, testServices({ keys: { getKey, listKeys } }));
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
        testServices({
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
