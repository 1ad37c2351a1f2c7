import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { memoryGrowth } from '../../../test/support/memory.ts';
import type { DeploymentRuntime, Run } from '../catalog/deployment-runtime.ts';
import type { SocketHandler, UpstreamSocket } from '../upstream/upstream.ts';
import type { BackendContext } from './backend.ts';
import { parseEvent, readClientEvent } from './client-event.ts';
import type { MeteredItem } from './metered-item.ts';
import { RelayBackend } from './relay-backend.ts';
import { ServerEvents } from './server-events.ts';
import { initialConfig } from './session-config.ts';

/** A relayed session whose next utterance finds no room in its budget before `prepared`. */
async function relayThatWaits(prepared: Promise<void>) {
  let handler!: SocketHandler;
  const sent: string[] = [];
  const socket: UpstreamSocket = { send: (text) => sent.push(text), close() {}, waitingBytes: 0 };
  const openSocket = (_path: string, given: SocketHandler): UpstreamSocket => {
    handler = given;
    process.nextTick(given.onOpen);
    return socket;
  };
  const ends: unknown[] = [];
  const run = { answered() {}, end: (verdict: unknown) => ends.push(verdict) } as unknown as Run;
  const events = new ServerEvents();
  const { signal } = new AbortController();
  const given = { prepare: () => prepared, isRefused: false, events, signal, sayUpdated() {} };
  const context = given as unknown as BackendContext;
  const deployment = { upstream: { openSocket, redact: (text: string) => text } } as unknown as DeploymentRuntime;
  const backend = (await RelayBackend.connect(context, deployment, run, initialConfig))!;
  return {
    backend,
    say: (text: string) => handler.onText(text),
    leave: () => handler.onClose('closed'),
    sent,
    ends,
    events,
  };
}

const heard = async (events: ServerEvents): Promise<{ count: number; error: unknown }> => {
  let count = 0;
  try {
    for await (const _ of events) count += 1;
  } catch (error) {
    return { count, error };
  }
  return { count, error: null };
};

test('an upstream is left once 4 MiB of its events, or 10,000, wait for a budget or the journal', async () => {
  for (const [event, waitingMax] of [
    [JSON.stringify({ type: 'x'.repeat(1024 * 1024) }), 4],
    ['{}', 10_000],
  ] as const) {
    const prepared = Promise.withResolvers<void>();
    const { say, ends, events } = await relayThatWaits(prepared.promise);
    for (let said = 0; said < waitingMax - 1; said += 1) say(event);
    await nextTurn();
    expect(ends).toEqual([]);
    for (let said = 0; said < 2; said += 1) say(event);
    expect(ends).toEqual([{ kind: 'none' }]);
    prepared.resolve();
    expect((await heard(events)).error).toMatchObject({ details: { internal: 'it says more than can be relayed' } });
  }
});

test('what an upstream says before it leaves reaches the client, though it waits for a budget or the journal', async () => {
  const prepared = Promise.withResolvers<void>();
  const { say, leave, ends, events } = await relayThatWaits(prepared.promise);
  for (let said = 0; said < 3; said += 1) say('{}');
  leave();
  prepared.resolve();
  expect(await heard(events)).toEqual({
    count: 3,
    error: expect.objectContaining({ details: { internal: 'closed' } }),
  });
  expect(ends).toMatchObject([{ kind: 'bad' }]);
});

test.each(['error', 'conversation.item.input_audio_transcription.failed'])(
  'an upstream without money for the gateway is left, and its client not told by %s that its own is used up',
  async (type) => {
    const { say, ends, events } = await relayThatWaits(Promise.resolve());
    const message = 'You exceeded your current quota.';
    say(JSON.stringify({ type, item_id: 'item', error: { type: 'insufficient_quota', message } }));
    await nextTurn();
    events.close();
    const { count, error } = await heard(events);
    expect({ count, error }).toMatchObject({ count: 0, error: { reason: ErrorReason.UPSTREAM_ERROR } });
    expect(String(error)).not.toContain(message);
    expect(ends).toEqual([{ kind: 'bad', message: expect.stringContaining(message) }]);
  },
);

test('a session that finishes relays what its upstream has said, though that waits for a budget', async () => {
  const prepared = Promise.withResolvers<void>();
  const { backend, say, events } = await relayThatWaits(prepared.promise);
  say('{}');
  const finishing = backend.finish().then(() => events.close());
  await nextTurn();
  prepared.resolve();
  await finishing;
  expect(await heard(events)).toEqual({ count: 1, error: null });
});

test('an upstream that answered an update late is waited for at the next, which it may refuse', async () => {
  const slow = vi.spyOn(AbortSignal, 'timeout').mockReturnValueOnce(AbortSignal.abort());
  const { backend, say, sent } = await relayThatWaits(Promise.resolve());
  expect(await backend.configure(initialConfig, null)).toBe(true);
  expect(slow).toHaveBeenCalledOnce();
  say(JSON.stringify({ type: 'session.updated' }));
  await nextTurn();
  const updating = backend.configure(initialConfig, null);
  const { event_id } = JSON.parse(sent.at(-1)!);
  say(JSON.stringify({ type: 'error', error: { event_id } }));
  expect(await updating).toBe(false);
});

test('of the events of commits that an upstream has yet to answer nothing but short ids stays in memory', async () => {
  const { backend } = await relayThatWaits(Promise.resolve());
  const mebibyte = 1024 ** 2;
  const grown = await memoryGrowth(4 * mebibyte, async () => {
    for (let sent = 0; sent < 400; sent += 1) {
      const text = JSON.stringify({ type: 'input_audio_buffer.commit', event_id: `${sent} ${'x'.repeat(60_000)}` });
      await backend.commit(readClientEvent(parseEvent(text)).eventId);
    }
  });
  expect(backend.hasUncommitted).toBe(false);
  expect(grown).toBeLessThan(4 * mebibyte);
});

test('any number of events are relayed to a client that keeps up', async () => {
  const { say, ends, events } = await relayThatWaits(Promise.resolve());
  const hearing = heard(events);
  for (let said = 0; said < 15_000; said += 1) {
    say('{}');
    if (said % 100 === 0) await nextTurn();
  }
  await nextTurn();
  events.close();
  expect(await hearing).toEqual({ count: 15_000, error: null });
  expect(ends).toEqual([]);
});

test('a stalled upstream keeps a few seconds of sound waiting for it, not minutes in each of a key’s hundred sessions', async () => {
  const over = new AbortController();
  let waitingBytes = 0;
  const openSocket = (_path: string, handler: SocketHandler) => {
    queueMicrotask(handler.onOpen);
    return {
      send(text: string) {
        waitingBytes += text.length;
      },
      get waitingBytes() {
        return waitingBytes;
      },
      close() {},
    };
  };
  const deployment = { settings: { dialect: UpstreamDialect.OPENAI }, upstream: { openSocket } };
  const context = { prepare: async () => {}, signal: over.signal } as unknown as BackendContext;
  const run = { answered() {}, end() {} } as unknown as Run;
  const backend = await RelayBackend.connect(context, deployment as unknown as DeploymentRuntime, run, initialConfig);
  const second = Buffer.alloc(24_000 * 2);
  const hearing = (async () => {
    for (let seconds = 0; seconds < 60 && !over.signal.aborted; seconds += 1) await backend!.append(second, null);
    over.abort();
  })();
  await nextTurn();
  expect(over.signal.aborted).toBe(false);
  expect(waitingBytes).toBeLessThan(512 * 1024);
  over.abort();
  await hearing;
});

/** A session that has committed a second of sound to an upstream that answers its updates, as `metered` meters it. */
async function relayOfASecond(metered: Partial<Record<keyof MeteredItem, unknown>>, config = initialConfig) {
  let say!: (event: object) => void;
  const openSocket = (_path: string, handler: SocketHandler) => {
    say = (event) => handler.onText(JSON.stringify(event));
    queueMicrotask(handler.onOpen);
    const send = (text: string) => text.includes('"session.update"') && say({ type: 'session.updated' });
    return { send, close() {}, waitingBytes: 0 };
  };
  const upstream = { openSocket, redact: (text: string) => text };
  const events = new ServerEvents();
  const context = {
    prepare: async () => {},
    sayUpdated() {},
    signal: new AbortController().signal,
    events,
    newItem: () => ({ call: {}, ...metered }),
  } as unknown as BackendContext;
  const run = { answered() {}, end() {} } as unknown as Run;
  const backend = (await RelayBackend.connect(context, { upstream } as unknown as DeploymentRuntime, run, config))!;
  await backend.append(Buffer.alloc(48_000), null);
  await backend.commit(null);
  const sayOfItem = (name: string) =>
    say({ type: `conversation.item.input_audio_transcription.${name}`, item_id: 'item' });
  return { backend, events, sayOfItem };
}

test('what a transcript may use is bounded by a prompt that its session had, though it has another by now', async () => {
  const bounds: unknown[] = [];
  const complete = async ({ promptBytes }: { promptBytes: number }) => bounds.push(promptBytes) > 0;
  const config = { ...initialConfig, transcription: { model: 'm', prompt: 'x'.repeat(1_000) } };
  const { backend, sayOfItem } = await relayOfASecond({ complete }, config);
  await backend.configure({ ...config, transcription: { model: 'm' } }, null);
  sayOfItem('completed');
  await backend.finish();
  expect(bounds).toEqual([expect.any(Number)]);
  expect(bounds[0]).toBeGreaterThan(1_000);
});

test.each(['completed', 'failed'])(
  'a session that finishes tells its client that an utterance %s, though metering that takes a while',
  async (outcome) => {
    const metered = Promise.withResolvers<boolean>();
    const end = () => metered.promise;
    const { backend, events, sayOfItem } = await relayOfASecond({ complete: end, fail: end });
    sayOfItem(outcome);
    let isFinished = false;
    const finishing = backend.finish().then(() => {
      isFinished = true;
      events.close();
    });
    // Some looks at whether anything is left to wait for.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(isFinished).toBe(false);
    metered.resolve(true);
    await finishing;
    expect(await heard(events)).toEqual({ count: 1, error: null });
  },
);

test('an utterance that cannot be counted ends its session, and fails with it', async () => {
  const failures: unknown[] = [];
  const { backend, events, sayOfItem } = await relayOfASecond({
    complete: () => Promise.reject(new Error('no vocabulary')),
    fail: async (error: unknown) => failures.push(error),
  });
  sayOfItem('completed');
  expect((await heard(events)).error).toMatchObject({ message: 'no vocabulary' });
  await backend.close();
  expect(failures).toMatchObject([{ reason: ErrorReason.CANCELLED }]);
});
