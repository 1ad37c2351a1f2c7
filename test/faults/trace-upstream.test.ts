import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InferenceBench, renewAfterSuccess, startInferenceBench } from '../support/inference.ts';
import type { Behaviour } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

const logLines: string[] = [];
let bench: InferenceBench;

beforeAll(async () => {
  bench = await startInferenceBench({ logLines });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => renewAfterSuccess(bench));

const chat = (stream: boolean) =>
  bench.client.chat.completions.create({ model: 'sim-chat', messages: [{ role: 'user', content: 'Hi' }], stream });

/** Makes a call that fails, streamed or not. Returns the error that the client threw. */
async function failedCall(behaviour: Behaviour, stream: boolean): Promise<InstanceType<typeof OpenAI.APIError>> {
  bench.simulator.next(behaviour);
  try {
    for await (const _ of (await chat(stream)) as AsyncIterable<unknown>);
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(OpenAI.APIError);
    return thrown as InstanceType<typeof OpenAI.APIError>;
  }
  throw new Error('the call succeeded');
}

/** The log line of a call that failed, which says why. */
const loggedFailure = (requestId: string | null | undefined) =>
  waitFor(
    () => {
      const lines = logLines.map((line) => JSON.parse(line));
      const line = lines.find((one) => one.requestId === requestId && one.internal !== undefined);
      if (line === undefined) throw new Error('there is no such line');
      return line;
    },
    { description: `the log line of ${requestId}` },
  );

/** By which the simulator knows its last request: the `x-request-id` of its answer. */
const upstreamRequestId = () => `sim-${bench.simulator.requests.at(-1)!.number}`;

const deployment = async () => (await bench.admin('GET', '/models/sim-chat')).deployments[0].id;

test("an upstream gets the answer's x-request-id as x-client-request-id", async () => {
  const { _request_id: requestId } = (await chat(false)) as OpenAI.ChatCompletion & { _request_id: string };
  expect(requestId).toMatch(/^req_/);
  expect(bench.simulator.requests.at(-1)!.headers['x-client-request-id']).toBe(requestId);
});

test('the log of a call that its upstream refused names model, deployment and the request as the upstream knows it', async () => {
  const instead = {
    status: 500,
    body: { error: { message: 'Out of memory' } },
    headers: { 'x-request-id': 'theirs-1' },
  };
  const { requestID } = await failedCall({ instead }, false);
  expect(await loggedFailure(requestID)).toMatchObject({
    level: 30,
    model: 'sim-chat',
    deployment: await deployment(),
    upstreamRequestId: upstreamRequestId(),
    reason: 'UPSTREAM_ERROR',
    internal: 'upstream answered 500: Out of memory',
  });
});

test('a stream that broke off is logged with why it did, and whose it was', async () => {
  const { requestID } = await failedCall({ fault: { kind: 'cut', afterChunks: 3 } }, true);
  expect(await loggedFailure(requestID)).toMatchObject({
    level: 30,
    model: 'sim-chat',
    deployment: await deployment(),
    upstreamRequestId: upstreamRequestId(),
    apiKeyId: bench.key.id,
    reason: 'UPSTREAM_ERROR',
    internal: 'reset: the upstream closed the connection',
  });
});

test('a client never sees how the upstream knows its request', async () => {
  const { error, headers } = await failedCall({ instead: { status: 400, body: { error: { message: 'No' } } } }, false);
  expect(JSON.stringify([error, Object.fromEntries(headers!)])).not.toContain(upstreamRequestId());
});
