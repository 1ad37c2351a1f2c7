import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { cancelled } from '#shared/errors.ts';
import { memoryGrowth } from '../../../test/support/memory.ts';
import type { BackendContext } from './backend.ts';
import { fileTranscriber } from './file-transcriber.ts';
import { initialConfig } from './session-config.ts';
import type { UtteranceOptions } from './transcriber.ts';

test('sound is held once while its transcript is awaited: as the file for the upstream', async () => {
  const sent: unknown[] = [];
  const deployment = {
    id: 'files-1',
    settings: {},
    available: true,
    concurrencyMax: 1_000,
    inFlight: 0,
    totalTimeoutMs: 600_000,
    start: () => ({ answered() {}, end() {} }),
    upstream: {
      send(request: unknown) {
        sent.push(request);
        return { abort() {} };
      },
    },
  };
  const over = new AbortController();
  const context = {
    signal: over.signal,
    deps: { catalog: { current: (model: object) => model } },
    model: () => ({ name: 'm', prices: [], deployments: [deployment], retryBudget: { deposit() {} } }),
  } as unknown as BackendContext;
  const options = { config: initialConfig, item: { call: { event: {} } }, onDelta() {} } as unknown as UtteranceOptions;
  const transcriber = fileTranscriber(context);
  const mebibyte = 1024 * 1024;
  const utterances: unknown[] = [];
  const transcripts: Promise<unknown>[] = [];
  const growth = await memoryGrowth(20 * mebibyte, async () => {
    for (let count = 0; count < 10; count += 1) {
      const utterance = transcriber.begin(options);
      for (let piece = 0; piece < 4 * 16; piece += 1) utterance.hear(new Int16Array(mebibyte / 32));
      utterances.push(utterance);
      transcripts.push(utterance.finish().catch(() => {}));
    }
    await nextTurn();
  });
  expect(sent).toHaveLength(10);
  expect(growth).toBeLessThan(50 * mebibyte);
  over.abort(cancelled());
  await Promise.all(transcripts);
});
