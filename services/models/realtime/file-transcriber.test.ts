import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { cancelled } from '#shared/errors.ts';
import { memoryGrowth } from '../../../test/support/memory.ts';
import type { BackendContext } from './backend.ts';
import { fileTranscriber } from './file-transcriber.ts';
import { initialConfig, type SessionConfig } from './session-config.ts';
import type { UtteranceOptions } from './transcriber.ts';

/** A session whose upstream never answers, and what that is sent. */
function startSession() {
  const sent: { body: Uint8Array[] }[] = [];
  const deployment = {
    id: 'files-1',
    settings: {},
    upstreamModel: 'files',
    available: true,
    concurrencyMax: 1_000,
    inFlight: 0,
    totalTimeoutMs: 600_000,
    start: () => ({ answered() {}, end() {} }),
    upstream: {
      send(request: { body: Uint8Array[] }) {
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
  return { sent, over, transcriber: fileTranscriber(context) };
}

const optionsOf = (config: SessionConfig) =>
  ({ config, item: { call: { event: {} } }, onDelta() {} }) as unknown as UtteranceOptions;

test('an utterance is sent with the words, languages and prompt of its session', async () => {
  const { sent, over, transcriber } = startSession();
  const transcription = { model: 'm', prompt: 'Names', language: '', keywords: ['Ada', 'Grace'], languages: ['en', 5] };
  const utterance = transcriber.begin(optionsOf({ ...initialConfig, transcription }));
  utterance.hear(new Int16Array(2_400));
  const transcript = utterance.finish().catch(() => {});
  await nextTurn();
  const form = Buffer.concat(sent[0]!.body).toString('latin1');
  const fields = [...form.matchAll(/name="([^"]+)"\r\n\r\n([^\r]*)/g)].map(([, name, value]) => [name, value]);
  expect(fields).toEqual([
    ['model', 'files'],
    ['response_format', 'json'],
    ['prompt', 'Names'],
    ['keywords[]', 'Ada'],
    ['keywords[]', 'Grace'],
    ['languages[]', 'en'],
  ]);
  over.abort(cancelled());
  await transcript;
});

test('sound is held once while its transcript is awaited: as the file for the upstream', async () => {
  const { sent, over, transcriber } = startSession();
  const mebibyte = 1024 * 1024;
  const utterances: unknown[] = [];
  const transcripts: Promise<unknown>[] = [];
  const growth = await memoryGrowth(20 * mebibyte, async () => {
    for (let count = 0; count < 10; count += 1) {
      const utterance = transcriber.begin(optionsOf(initialConfig));
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
