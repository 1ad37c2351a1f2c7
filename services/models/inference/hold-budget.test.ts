import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { InvokeRequestSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { wavOf } from '../../../test/support/wav.ts';
import { freeOfCharge } from '../domain/fixtures/free-of-charge.ts';
import { createCallTools } from './call-tools.ts';
import { costRange, limitToHold, usageBound } from './hold-budget.ts';
import { prepareImages } from './images-call.ts';
import { textEstimate } from './prepared-call.ts';
import { prepareTranscription } from './transcription-call.ts';
import { canTranscriptUse, transcriptUseMax } from './usage-bound.ts';

const price = { ...freeOfCharge, inputPerMillionTokens: 1_000_000n };
const model = { contextWindow: 448, maxOutputTokens: 0 };

test("a prompt is held at no more than the model's context window, and media where that is unknown at no more than the usual one", () => {
  const text = textEstimate(10_000, 0);
  expect(costRange({ estimate: text }, model, price).costMaxNanoUsd).toBe(448n);
  const photo = textEstimate(100, 0, { mediaBytes: 3_000_000 });
  expect(costRange({ estimate: photo }, model, price).costMaxNanoUsd).toBe(448n);
  expect(costRange({ estimate: photo }, { ...model, contextWindow: 0 }, price).costMaxNanoUsd).toBe(131_472n);
  // A long video may use more than was held for it, and is charged then.
  expect(usageBound({ estimate: photo }, { ...model, contextWindow: 0 }).allows({ inputTokens: 200_000 })).toBe(true);
});

test('as much is held for an audio file as is believed of its transcript, window by window, with all of its prompt', () => {
  const perToken = { ...price, outputPerMillionTokens: 1_000_000n, perAudioSecond: 1n };
  for (const [audioMs, windows, seconds] of [
    [1_000, 1, 2],
    [31_000, 2, 35],
  ] as const) {
    const most = { inputTokens: 1_200 * windows + 500, outputTokens: 450 * windows, audioMs: seconds * 1_000 };
    expect(canTranscriptUse(most, audioMs, 500)).toBe(true);
    const estimate = { ...textEstimate(10, 10), heard: transcriptUseMax(audioMs, 500) };
    const { costMaxNanoUsd } = costRange({ estimate }, model, perToken);
    expect(costMaxNanoUsd).toBe(BigInt(most.inputTokens + most.outputTokens + seconds));
  }
});

test.each([
  [{}, 7_324],
  [{ size: '1536x1024', quality: 'high', n: 2 }, 2 * 8_532],
  [{ size: '2880x2880', quality: 'auto' }, 24_019],
  [{ size: '3840x2160', quality: 'max' }, 32_768],
  [{ output_format: 'gif', frame_count: 16 }, 32_768],
  [{ output_format: 'svg', size: 'auto' }, 32_768],
])('an image is held at the tokens of the largest model for what is asked, and believed of more: %o', (asked, held) => {
  const body = Buffer.from(JSON.stringify({ model: 'm', prompt: 'A cat', ...asked }));
  const call = prepareImages(create(InvokeRequestSchema, { body }));
  const perToken = { ...freeOfCharge, outputPerMillionTokens: 1_000_000n };
  const unknown = { contextWindow: 0, maxOutputTokens: 0 };
  expect(costRange(call, unknown, perToken).costMaxNanoUsd).toBe(BigInt(held));
  expect(usageBound(call, unknown).allows({ outputTokens: 131_072 })).toBe(true);
});

test('recordings of known speakers are held as what they are, not as a prompt of as many tokens as bytes', async () => {
  const form = new FormData();
  form.append('model', 'm');
  form.append('file', new Blob([wavOf(2)]), 'speech.wav');
  // Ten seconds in CD quality.
  const recording = `data:audio/wav;base64,${Buffer.alloc(1_764_044).toString('base64')}`;
  form.append('known_speaker_references[]', recording);
  form.append('prompt', 'a'.repeat(500));
  const sent = new Response(form);
  const contentType = sent.headers.get('content-type')!;
  const body = Buffer.from(await sent.arrayBuffer());
  const tools = createCallTools(systemClock);
  const call = await prepareTranscription(create(InvokeRequestSchema, { body, contentType }), tools);
  const held = Number(costRange(call, { contextWindow: 0, maxOutputTokens: 0 }, price).costMaxNanoUsd);
  // Of windows of half a minute: one of the file, and as for any file of unknown length, eight of the recording.
  expect(held - 9 * 1_200).toBeGreaterThan(500);
  expect(held - 9 * 1_200).toBeLessThan(2_000);
  await tools.close();
});

test.each([
  ['what its prompt leaves of the context, of which many upstreams allow no more', 8_192, 1_024, 7_168],
  ['what is held, where its prompt leaves more', 8_192, 100, 8_000],
  ['a short one, where its prompt fills the context', 8_192, 8_192, 256],
  ['what is held, where the context is unknown', 0, 1_024, 8_000],
])('near a limit an answer is cut to %s', (_what, contextWindow, inputTokens, expected) => {
  const limits: number[] = [];
  const perToken = { ...freeOfCharge, outputPerMillionTokens: 1_000_000n };
  const call = {
    estimate: textEstimate(inputTokens, null),
    limitOutputTokens: (tokens: number) => limits.push(tokens),
  };
  limitToHold(call, { contextWindow, maxOutputTokens: 0 }, perToken, { costAllowedNanoUsd: 8_000n });
  expect(limits).toEqual([expected]);
});
