import { describe, expect, test, vi } from 'vitest';
import { GetKeyRequestSchema, KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import {
  aborted,
  asCaller,
  caller,
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
import { callerOf } from './caller.ts';

expectSilentConsole();

describe.each(carriers)('over %s', (carrier) => {
  test('a unary call carries its message, its caller and its answer', async () => {
    let seen: unknown;
    await using rpc = await carry(
      carrier,
      testServices({
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
      testServices({
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

  test('large messages in flight, and hundreds of paused readers, keep no other call from being made', async () => {
    const count = 200;
    await using rpc = await carry(
      carrier,
      testServices({
        keys: { getKey: ({ keyId: id }) => ({ key: { id } }) },
        inference: {
          async *invoke({ body }) {
            // More than a paused reader accepts.
            yield { body: new Uint8Array(96 * 1024) };
            yield { end: { usage: { inputTokens: BigInt(body.length) } } };
          },
        },
      }),
    );
    const { invoke } = rpc.client(InferenceService);
    const { getKey } = rpc.client(KeysService);
    const readers = Array.from({ length: count }, () => invoke(invocation, asCaller())[Symbol.asyncIterator]());
    await Promise.all(readers.map((reader) => reader.next()));
    const large = { ...invocation, body: new Uint8Array(3 * 1024 * 1024) };
    const sent = Array.from({ length: 5 }, () => collect(invoke(large, asCaller())));
    expect(await getKey({ keyId }, asCaller())).toMatchObject({ key: { id: keyId } });
    for (const pieces of await Promise.all(sent)) {
      expect(pieces.at(-1)!.end!.usage!.inputTokens).toBe(BigInt(large.body.length));
    }
    for (const reader of readers) expect((await reader.next()).value!.end).toBeDefined();
  });

  test('both sides of a bidirectional stream talk in turn, and the client’s end reaches the handler', async () => {
    await using rpc = await carry(
      carrier,
      testServices({
        inference: {
          async *transcribe(requests) {
            for await (const { message } of requests)
              yield { message: { case: 'eventJson', value: `${message.value}!` } };
            yield { message: { case: 'eventJson', value: 'over' } };
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
      answers.push(message.value);
      heard();
    }
    expect(answers).toEqual(['a!', 'b!', 'c!', 'over']);
  });

  test('a handler may end while its client is still sending, and all of its answer arrives', async () => {
    await using rpc = await carry(
      carrier,
      testServices({
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
      testServices({ keys: { getKey: (_request, context) => ({ key: { id: callerOf(context).userId } }) } }),
    );
    const failure = await failureOf(rpc.client(KeysService).getKey({ keyId }));
    expect(failure.reason).toBe(ErrorReason.UNAUTHENTICATED_SERVICE);
  });
});
