import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { BackendContext } from './backend.ts';
import { initialConfig } from './session-config.ts';
import type { Transcriber } from './transcriber.ts';
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
