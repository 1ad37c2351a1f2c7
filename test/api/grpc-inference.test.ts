import { type Client, type ClientReadableStream, type ServiceError, status } from '@grpc/grpc-js';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { InvokeResponse } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { callerOfKey, grpcClient, invokeByGrpc } from '../support/grpc-client.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';

let bench: InferenceBench;
let client: Client;
beforeAll(async () => {
  bench = await startInferenceBench();
  client = grpcClient(bench.gateway.gateway.rpcUrl!);
});
afterAll(async () => {
  client?.close();
  await bench?.[Symbol.asyncDispose]();
});
beforeEach(() => bench.renew());

/** Starts a call on behalf of the bench's key, of a chat unless another operation is named. */
function invoke(
  body: object,
  deadlineMs = 15_000,
  operation: Operation = Operation.CHAT_COMPLETIONS,
): Promise<ClientReadableStream<InvokeResponse>> {
  const caller = callerOfKey(bench.session, bench.key.id);
  const request = {
    operation,
    contentType: 'application/json',
    body: Buffer.from(JSON.stringify({ model: 'sim-chat', messages: [{ role: 'user', content: 'Hello' }], ...body })),
  };
  return invokeByGrpc(client, { caller, secrets: bench.gateway.env.serviceSecrets }, request, deadlineMs);
}

const codeOf = (stream: ClientReadableStream<InvokeResponse>): Promise<number> =>
  new Promise((resolve) => {
    stream.on('error', () => {});
    stream.on('status', ({ code }) => resolve(code));
    stream.resume();
  });

test('a gRPC client that shares no code with ours invokes a model, reads its stream to the end and is metered', async () => {
  const answers: InvokeResponse[] = [];
  for await (const answer of await invoke({ stream: true })) answers.push(answer);
  expect(answers[0]!.head).toMatchObject({ status: 200, model: 'sim-chat' });
  expect(Buffer.concat(answers.map(({ body }) => body)).toString()).toMatch(/^data: \{[\s\S]*data: \[DONE\]\n\n$/);
  const { outputTokens } = answers.at(-1)!.end!.usage!;
  expect(answers.at(-1)!.end).toMatchObject({ success: true, usage: { outputTokens: 16n } });
  await bench.event({ id: answers.at(-1)!.end!.eventId, output_tokens: Number(outputTokens) });
});

test('a model call by gRPC that its client cancels, or whose deadline passes, is aborted at the upstream', async () => {
  bench.simulator.otherwise('hang-before-head');
  const cancelled = await invoke({});
  const code = codeOf(cancelled);
  await bench.simulator.waitFor(({ outcome }) => outcome === 'running');
  cancelled.cancel();
  expect(await code).toBe(status.CANCELLED);
  const { simulator } = bench;
  // On a busy machine a deadline may pass before the call has reached the upstream.
  for (let deadlineMs = 250; simulator.requests.length < 2; deadlineMs *= 2) {
    expect(await codeOf(await invoke({}, deadlineMs))).toBe(status.DEADLINE_EXCEEDED);
  }
  const areLeft = () => simulator.requests.every(({ outcome }) => outcome === 'client-left');
  await simulator.waitFor(areLeft, { description: 'both calls to be aborted' });
});

test('a model call by gRPC that is refused before its answer begins fails with the code and text of the refusal', async () => {
  const stream = await invoke({ model: 'nobody' });
  const failure = new Promise((resolve) => stream.on('error', resolve));
  stream.resume();
  expect(await failure).toMatchObject({
    code: status.NOT_FOUND,
    details: expect.stringContaining('The model `nobody` does not exist'),
  });
});

test('a model call by gRPC that the upstream refuses with half a character still fails with its words', async () => {
  bench.simulator.next({ instead: { status: 400, body: { error: { message: 'No. \ud800' } } } });
  const stream = await invoke({});
  const failure = new Promise((resolve) => stream.on('error', resolve));
  stream.resume();
  expect(await failure).toMatchObject({ code: status.INVALID_ARGUMENT, details: 'No. \ufffd' });
});

test.each(['a', ' ', '文', '🙂'])(
  'a refusal by gRPC, however long its words of %s, fits into the 8 KiB that clients take',
  async (word) => {
    bench.simulator.next({ instead: { status: 400, body: { error: { message: word.repeat(2_000) } } } });
    const stream = await invoke({});
    const failure = new Promise<ServiceError>((resolve) => stream.on('error', resolve));
    stream.resume();
    const { code, details, metadata } = await failure;
    expect(code).toBe(status.INVALID_ARGUMENT);
    expect(details).toMatch(new RegExp(`^(${word}){300,}…$`, 'u'));
    const inBase64 = Buffer.from(metadata.get('grpc-status-details-bin')[0]!).toString('base64');
    expect(encodeURIComponent(details).length + inBase64.length).toBeLessThan(8_000);
  },
);

test.each([false, true])(
  'an answer larger than 4 MiB, the most that gRPC clients accept as one message, arrives in several (stream: %s)',
  async (stream) => {
    bench.simulator.next({ paddingBytes: 6 * 1024 * 1024 });
    const operation = stream ? Operation.IMAGES_GENERATIONS : Operation.CHAT_COMPLETIONS;
    const model = stream ? 'sim-image' : 'sim-chat';
    const answers: InvokeResponse[] = [];
    for await (const answer of await invoke({ model, stream, prompt: 'A cat' }, 15_000, operation))
      answers.push(answer);
    const text = Buffer.concat(answers.map(({ body }) => body)).toString();
    expect(text.length).toBeGreaterThan(6 * 1024 * 1024);
    expect(JSON.parse(stream ? /^data: (.*)$/m.exec(text)![1]! : text)).toBeTypeOf('object');
    expect(answers.map(({ head }) => head !== undefined)).toEqual(answers.map((_, index) => index === 0));
    expect(answers.at(-1)!.end!.success).toBe(true);
  },
);
