import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import type { BackendContext } from './backend.ts';
import { HeardRoom } from './heard-room.ts';
import type { ServerEvent } from './server-event.ts';
import { ServerEvents } from './server-events.ts';
import { initialConfig } from './session-config.ts';
import type { Transcriber, Transcript, UtteranceOptions } from './transcriber.ts';
import { UtteranceBackend } from './utterance-backend.ts';

test('an event with five minutes of audio is heard a second at a time: in between, the event loop is for others', async () => {
  const context = { prepare: async () => {}, signal: new AbortController().signal } as unknown as BackendContext;
  // Nobody speaks, so that nothing is transcribed.
  const backend = new UtteranceBackend(context, {} as Transcriber, initialConfig);
  let turns = 0;
  let isHeard = false;
  const others = (async () => {
    for (; !isHeard; turns += 1) await nextTurn();
  })();
  await backend.append(Buffer.alloc(300 * 24_000 * 2), null);
  isHeard = true;
  await others;
  expect(turns).toBeGreaterThan(250);
});

const mebibyte = 1024 * 1024;

/** Opens sessions of one user without turn detection. `finish` is what their utterances become; an upstream takes `takes` of their sound. */
function sessionsOf(heardRoom: HeardRoom, { takes, finish }: { takes: number; finish: () => Promise<never> }) {
  const context = {
    deps: { heardRoom },
    caller: { userId: 'one' },
    prepare: async () => {},
    signal: new AbortController().signal,
    events: { emit() {} },
    newItem: () => ({ complete: async () => true, fail: async () => {} }),
  } as unknown as BackendContext;
  const begin = () => ({
    heldBytes: 0,
    hear({ byteLength }: Int16Array) {
      this.heldBytes += byteLength * (1 - takes);
    },
    abort() {},
    finish,
  });
  return () => new UtteranceBackend(context, { begin }, { ...initialConfig, turnDetection: null });
}

const hear = (backend: UtteranceBackend, mebibytes: number) => backend.append(Buffer.alloc(mebibytes * mebibyte), null);

test('sound takes room in memory until it is transcribed or dropped; without room the session ends', async () => {
  // One user leaves a quarter to others.
  let refusals = 0;
  const heardRoom = new HeardRoom(8 * mebibyte, () => {
    refusals += 1;
  });
  const transcript = Promise.withResolvers<never>();
  const session = sessionsOf(heardRoom, { takes: 0, finish: () => transcript.promise });
  const [committed, cleared, next] = [session(), session(), session()];
  await hear(committed, 3);
  committed.commit(null);
  await hear(cleared, 3);
  await expect(hear(next, 1)).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  cleared.clear();
  await hear(next, 2);
  await next.close();
  await hear(cleared, 3);
  await expect(hear(session(), 1)).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  expect(refusals).toBe(2);
  transcript.reject(new Error('no transcript'));
  await committed.finish();
  await hear(committed, 2);
});

test('sound that an upstream has taken needs no room: any number of sessions may speak to one that transcribes as it hears', async () => {
  const session = sessionsOf(new HeardRoom(8 * mebibyte, expect.unreachable), {
    takes: 1,
    finish: () => Promise.reject(new Error('none')),
  });
  for (let count = 0; count < 10; count += 1) await hear(session(), 3);
});

test.each([
  ['10,000 pieces', 'a', 10_000],
  ['4 MiB', 'a'.repeat(mebibyte), 4],
])('no more of a transcript than %s waits for the journal, however much its upstream says', async (_, piece, most) => {
  const written = Promise.withResolvers<void>();
  const events = new ServerEvents();
  const context = {
    deps: { heardRoom: new HeardRoom(8 * mebibyte, expect.unreachable) },
    caller: { userId: 'one' },
    prepare: async () => {},
    signal: new AbortController().signal,
    events,
    newItem: () => ({ delta: () => written.promise }),
  } as unknown as BackendContext;
  let say!: UtteranceOptions['onDelta'];
  const begin = ({ onDelta }: UtteranceOptions) => {
    say = onDelta;
    return { heldBytes: 0, hear() {}, abort() {}, finish: () => expect.unreachable() };
  };
  const backend = new UtteranceBackend(context, { begin }, { ...initialConfig, turnDetection: null });
  await hear(backend, 1);
  for (let said = 0; said < most; said += 1) expect(say(piece)).toBe(true);
  expect(say(piece)).toBe(false);
  written.resolve();
  for await (const _event of events) break;
  expect(say(piece)).toBe(true);
});

test('what a transcript may use is bounded by the prompt that its utterance was sent with, not by a later one', async () => {
  const promptBytes: number[] = [];
  const complete = async (completed: { promptBytes: number }) => promptBytes.push(completed.promptBytes) > 0;
  const context = {
    deps: { heardRoom: new HeardRoom(8 * mebibyte, expect.unreachable) },
    caller: { userId: 'one' },
    prepare: async () => {},
    signal: new AbortController().signal,
    events: { emit() {} },
    setPrompt() {},
    sayUpdated() {},
    newItem: () => ({ complete }),
  } as unknown as BackendContext;
  const transcript = Promise.withResolvers<Transcript>();
  const begin = () => ({ heldBytes: 0, hear() {}, abort() {}, finish: () => transcript.promise });
  const config = { ...initialConfig, turnDetection: null, transcription: { model: 'm', prompt: 'x'.repeat(1_000) } };
  const backend = new UtteranceBackend(context, { begin }, config);
  await hear(backend, 1);
  backend.commit(null);
  backend.configure({ ...config, transcription: { model: 'm' } });
  transcript.resolve({ text: 'said', usage: {}, reported: null });
  await backend.finish();
  expect(promptBytes[0]).toBeGreaterThan(1_000);
});

test('what an upstream says before it breaks off is delivered and charged before the client is told', async () => {
  const written = Promise.withResolvers<void>();
  const heard: unknown[] = [];
  const transcript = Promise.withResolvers<never>();
  const context = {
    deps: { heardRoom: new HeardRoom(8 * mebibyte, expect.unreachable) },
    caller: { userId: 'one' },
    prepare: async () => {},
    signal: new AbortController().signal,
    events: { emit: ({ type, delta }: ServerEvent) => heard.push(delta ?? type) },
    newItem: () => ({ delta: () => written.promise, fail: async () => heard.push('charged') }),
  } as unknown as BackendContext;
  const begin = ({ onDelta }: UtteranceOptions) => ({
    heldBytes: 0,
    hear() {},
    abort() {},
    finish() {
      for (const word of ['three ', 'words ', 'said']) onDelta(word);
      transcript.reject(new Error('broken off'));
      return transcript.promise;
    },
  });
  const backend = new UtteranceBackend(context, { begin }, { ...initialConfig, turnDetection: null });
  await hear(backend, 1);
  backend.commit(null);
  await nextTurn();
  written.resolve();
  await backend.finish();
  await nextTurn();
  const failed = 'conversation.item.input_audio_transcription.failed';
  expect(heard.slice(3)).toEqual(['three ', 'words ', 'said', 'charged', failed]);
});
