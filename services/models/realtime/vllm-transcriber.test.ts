import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import type { DeploymentRuntime, Verdict } from '../catalog/deployment-runtime.ts';
import type { SocketHandler } from '../upstream/upstream.ts';
import type { BackendContext } from './backend.ts';
import type { UtteranceOptions } from './transcriber.ts';
import { vllmTranscriber } from './vllm-transcriber.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** An utterance, and its deployment's side of the connection. */
function utteranceOnSocket(onDelta: UtteranceOptions['onDelta'] = () => true) {
  const verdicts: Verdict[] = [];
  const sockets: SocketHandler[] = [];
  const connection = { waitingBytes: 0, send() {}, close() {} };
  const deployment = {
    id: 'vllm-1',
    settings: { dialect: UpstreamDialect.VLLM },
    available: true,
    concurrencyMax: 1,
    inFlight: 0,
    start: () => ({ answered() {}, end: (verdict: Verdict) => verdicts.push(verdict) }),
    upstream: {
      openSocket(_path: string, handler: SocketHandler) {
        sockets.push(handler);
        return connection;
      },
      redact: (text: string) => text.replaceAll('sk-of-the-upstream', '[redacted]'),
    },
  } as unknown as DeploymentRuntime;
  const context = {
    signal: new AbortController().signal,
    model: () => ({ deployments: [deployment] }),
  } as unknown as BackendContext;
  const options = { config: { format: { type: 'audio/pcm', rate: 24_000 } }, item: { call: {} }, onDelta };
  const files = { begin: () => expect.unreachable() };
  const utterance = vllmTranscriber(context, files).begin(options as unknown as UtteranceOptions);
  return { utterance, socket: sockets[0]!, connection, verdicts };
}

test('an utterance whose transcript does not end fails after a minute', async () => {
  const { utterance, socket, verdicts } = utteranceOnSocket();
  socket.onOpen();
  const transcript = expect(utterance.finish()).rejects.toMatchObject({ reason: ErrorReason.UPSTREAM_TIMEOUT });
  await vi.advanceTimersByTimeAsync(60_000);
  await transcript;
  expect(verdicts).toEqual([{ kind: 'bad', message: 'a transcript did not end' }]);
});

test('an utterance fails whose upstream says more than can wait for the journal', async () => {
  const { utterance, socket, verdicts } = utteranceOnSocket(() => false);
  socket.onOpen();
  socket.onText(JSON.stringify({ type: 'transcription.delta', delta: 'more' }));
  await expect(utterance.finish()).rejects.toMatchObject({ reason: ErrorReason.UPSTREAM_ERROR });
  expect(verdicts).toEqual([{ kind: 'none' }]);
});

test('nothing waits for an utterance whose connection was lost while it was spoken', async () => {
  const { utterance, socket } = utteranceOnSocket();
  socket.onOpen();
  socket.onClose('the connection broke off');
  await expect(utterance.finish()).rejects.toThrow();
  expect(vi.getTimerCount()).toBe(0);
});

test.each(['no such key: sk-of-the-upstream', { message: 'no such key: sk-of-the-upstream' }])(
  'the error %j of an upstream is logged without our key',
  async (error) => {
    const { utterance, socket } = utteranceOnSocket();
    socket.onOpen();
    const transcript = utterance.finish();
    socket.onText(JSON.stringify({ type: 'error', error }));
    await expect(transcript).rejects.toMatchObject({ details: { internal: expect.stringContaining('[redacted]') } });
    await expect(transcript).rejects.not.toMatchObject({ details: { internal: expect.stringContaining('sk-') } });
  },
);

test.each([
  [
    'counts against its upstream',
    'bad',
    { error: 'EngineCore encountered an issue.', code: 'processing_error' },
    ErrorReason.UPSTREAM_ERROR,
  ],
  [
    'about the utterance does not',
    'good',
    { error: { message: 'Too noisy', code: 400 } },
    ErrorReason.UPSTREAM_REFUSED,
  ],
])('an error in place of a transcript %s', async (_what, kind, said, reason) => {
  const { utterance, socket, verdicts } = utteranceOnSocket();
  socket.onOpen();
  socket.onText(JSON.stringify({ type: 'error', ...said }));
  await expect(utterance.finish()).rejects.toMatchObject({ reason });
  expect(verdicts).toMatchObject([{ kind }]);
});

test('sound is held in memory until the connection is open, and then as far as the upstream has not taken it', () => {
  const { utterance, socket, connection } = utteranceOnSocket();
  utterance.hear(new Int16Array(24_000));
  expect(utterance.heldBytes).toBe(48_000);
  socket.onOpen();
  utterance.hear(new Int16Array(24_000));
  expect(utterance.heldBytes).toBe(0);
  connection.waitingBytes = 64_000;
  expect(utterance.heldBytes).toBe(64_000);
  utterance.abort();
  expect(utterance.heldBytes).toBe(0);
});
