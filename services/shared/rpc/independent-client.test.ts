import { Code, type HandlerContext } from '@connectrpc/connect';
import { type CallOptions, Metadata, type ServiceError, status } from '@grpc/grpc-js';
import { describe, expect, test, vi } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { grpcClient, grpcServiceDefinition } from '../../../test/support/grpc-client.ts';
import {
  aborted,
  caller,
  expectSilentConsole,
  keyId,
  patience,
  serveRpc,
  testServices,
  testTokens,
} from '../../../test/support/rpc-carriers.ts';
import { ErrorReason, gatewayError } from '../errors.ts';
import { callerOf } from './caller.ts';

expectSilentConsole();

describe('an independent gRPC client', () => {
  const metadataFor = async (audience: string) => {
    const metadata = new Metadata();
    metadata.set('authorization', `Bearer ${await testTokens('edge').mint(audience, caller)}`);
    return metadata;
  };

  test.each([false, true])('makes unary and streaming calls (TLS: %s)', async (tls) => {
    await using port = await serveRpc(
      testServices({
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
    expect(answer).toMatchObject({ key: { id: keyId, name: caller.userId } });

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

  test('gets the whole answer and its status although it is still sending', async () => {
    await using port = await serveRpc(
      testServices({
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
      testServices({
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
    // Long enough to reach the handler even on a very busy machine.
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
