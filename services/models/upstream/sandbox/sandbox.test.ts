import { afterEach, describe, expect, test, vi } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { loadTokenizer } from '../../bytes/tokens.ts';
import { bytesOf, type Seen, start } from './fixtures/test-exchange.ts';
import type { SandboxKnobs } from './knobs.ts';
import { sandboxModels } from './models.ts';
import { createSandbox } from './sandbox.ts';

const clock = new ManualClock(Date.UTC(2026, 0, 1));
const make = (knobs: SandboxKnobs = {}) => createSandbox({ clock, knobs });
const request = (more: object = {}) => ({
  model: 'sandbox-chat',
  messages: [{ role: 'user', content: 'Write 300 words' }],
  stream: true,
  ...more,
});
const chat = Operation.CHAT_COMPLETIONS;
const nextTurns = async (turns: number) => {
  for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
};
/** Gives everything that could still arrive time to do so. */
const settle = () => nextTurns(50);
/** Loads the vocabulary, so that from here on only the knobs take time. */
const warm = async (knobs: SandboxKnobs) => {
  await loadTokenizer();
  return make(knobs);
};

afterEach(() => {
  vi.useRealTimers();
});

test('lists its models', async () => {
  const listed = await make().listModels(new AbortController().signal);
  expect(listed.map(({ id }) => id)).toEqual(sandboxModels.map((model) => model.id));
  await expect(make().listModels(AbortSignal.abort())).rejects.toThrow();
});

test('every operation has a model', () => {
  const offered = new Set(sandboxModels.flatMap((model) => model.operations));
  expect(new Set([Operation.UNSPECIFIED, ...offered])).toEqual(new Set(Object.values(Operation)));
});

test("a body in pieces is one body, and the time is the clock's", async () => {
  const text = JSON.stringify(request({ stream: false }));
  const body = [text.slice(0, 20), text.slice(20, 21), text.slice(21)].map((piece) => Buffer.from(piece));
  const seen = await start(make(), chat, null, { body }).over;
  expect(seen.calls).toEqual(['head', 'data', 'end']);
  expect(seen.header('content-length')).toBe(String(bytesOf(seen).length));
  expect(JSON.parse(bytesOf(seen).toString()).created).toBe(Date.UTC(2026, 0, 1) / 1000);
});

test('there are no callbacks before send has returned', async () => {
  const { seen, over } = start(make(), chat, request());
  expect(seen.calls).toEqual([]);
  await over;
});

test('an operation that the model lacks is refused', async () => {
  const seen = await start(make(), Operation.EMBEDDINGS, { model: 'sandbox-chat', input: 'a' }).over;
  expect(seen.status).toBe(400);
});

describe('control', () => {
  test('a stream arrives as head, data, end', async () => {
    const { calls } = await start(make(), chat, request()).over;
    expect(calls[0]).toBe('head');
    expect(calls.at(-1)).toBe('end');
    expect(calls.slice(1, -1).every((call) => call === 'data')).toBe(true);
    expect(calls.length).toBeGreaterThan(300);
  });

  test.each([1, 40])('abort after %d pieces stops everything', async (pieces) => {
    const aborted = Promise.withResolvers<Seen>();
    const { seen } = start(make(), chat, request(), {
      onChunk(exchange, so) {
        if (so.chunks.length !== pieces) return;
        exchange.abort();
        aborted.resolve(so);
      },
    });
    await aborted.promise;
    await settle();
    expect(seen.calls).toEqual(['head', ...new Array(pieces).fill('data')]);
  });

  test('abort before the head stops everything', async () => {
    const upstream = await warm({ latencyMs: 300 });
    const first = start(upstream, chat, request());
    first.exchange.abort();
    const second = start(upstream, chat, request());
    await nextTurns(2);
    second.exchange.abort();
    await start(upstream, chat, request()).over;
    await settle();
    expect([first.seen.calls, second.seen.calls]).toEqual([[], []]);
  });

  test('pause holds the data back, resume delivers all of it', async () => {
    const whole = bytesOf(await start(make(), chat, request()).over);
    const paused = Promise.withResolvers<void>();
    const { exchange, seen, over } = start(make(), chat, request(), {
      onChunk(running, so) {
        if (so.chunks.length !== 10) return;
        running.pause();
        paused.resolve();
      },
    });
    await paused.promise;
    await settle();
    expect(seen.chunks).toHaveLength(10);
    exchange.resume();
    exchange.resume();
    expect(bytesOf(await over).equals(whole)).toBe(true);
  });

  test('pause and resume within one piece lose and repeat nothing', async () => {
    const whole = bytesOf(await start(make(), chat, request()).over);
    const { over } = start(make(), chat, request(), {
      onChunk(exchange) {
        exchange.pause();
        exchange.resume();
      },
    });
    expect(bytesOf(await over).equals(whole)).toBe(true);
  });

  test('close breaks what runs and refuses what comes', async () => {
    const upstream = await warm({ latencyMs: 60_000 });
    const running = start(upstream, chat, request(), { headTimeoutMs: 120_000 });
    await settle();
    await upstream.close();
    expect((await running.over).error?.kind).toBe('reset');
    expect((await start(upstream, chat, request()).over).error?.kind).toBe('refused');
  });
});

describe('knobs', () => {
  test('latency and the delay between pieces are kept', async () => {
    const upstream = await warm({ latencyMs: 100, chunkDelayMs: 10 });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { seen } = start(upstream, chat, request());
    await settle();
    await vi.advanceTimersByTimeAsync(99);
    expect(seen.calls).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(seen.calls).toEqual(['head', 'data']);
    await vi.advanceTimersByTimeAsync(50);
    expect(seen.chunks).toHaveLength(6);
  });

  test('a handler that pauses and resumes at once does not speed up the stream', async () => {
    const upstream = await warm({ chunkDelayMs: 10 });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { seen, exchange } = start(upstream, chat, request(), {
      onChunk(running) {
        running.pause();
        running.resume();
      },
    });
    await settle();
    await vi.advanceTimersByTimeAsync(20);
    await settle();
    expect(seen.chunks).toHaveLength(3);
    exchange.abort();
  });

  test('aborting leaves no timer behind', async () => {
    const upstream = await warm({ latencyMs: 100, chunkDelayMs: 10 });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const { seen, exchange } = start(upstream, chat, request());
    await settle();
    await vi.advanceTimersByTimeAsync(110);
    expect(vi.getTimerCount()).toBe(1);
    exchange.abort();
    expect(vi.getTimerCount()).toBe(0);
    expect(seen.calls).toEqual(['head', 'data', 'data']);
  });

  test('a head later than headTimeoutMs, or a piece later than idleTimeoutMs, is a timeout', async () => {
    const late = await start(make({ latencyMs: 60_000 }), chat, request(), { headTimeoutMs: 5 }).over;
    expect([late.calls, late.error?.kind]).toEqual([['error'], 'timeout']);
    const stuck = await start(make({ chunkDelayMs: 60_000 }), chat, request(), { idleTimeoutMs: 5 }).over;
    expect([stuck.calls, stuck.error?.kind]).toEqual([['head', 'data', 'error'], 'timeout']);
  });

  test('an error rate of a quarter fails every fourth request', async () => {
    const upstream = make({ errorRate: 0.25 });
    const statuses = [];
    for (let i = 0; i < 8; i++) statuses.push(await start(upstream, chat, request()).over);
    expect(statuses.map((seen) => seen.status)).toEqual([200, 200, 200, 500, 200, 200, 200, 500]);
  });

  test('a cut breaks the stream', async () => {
    const broken = await start(make({ cutAfterChunks: 3 }), chat, request()).over;
    expect(broken.calls).toEqual(['head', 'data', 'data', 'data', 'error']);
    expect(broken.error?.kind).toBe('reset');
  });
});
