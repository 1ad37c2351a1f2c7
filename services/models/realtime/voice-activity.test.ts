import { expect, test } from 'vitest';
import type { TurnDetection } from './session-config.ts';
import { VoiceActivity } from './voice-activity.ts';

const rate = 8_000;
const detection: TurnDetection = { type: 'server_vad', threshold: 0.5, prefixPaddingMs: 300, silenceDurationMs: 200 };
const samples = (ms: number, amplitude: number): Int16Array =>
  Int16Array.from({ length: (ms * rate) / 1000 }, (_, index) => Math.round(Math.sin(index) * amplitude));
const msOf = (sample: number): number => (sample * 1000) / rate;

function heard(parts: readonly Int16Array[], pieceSamples = 160) {
  const activity = new VoiceActivity(detection, rate);
  const all = Int16Array.from(parts.flatMap((part) => [...part]));
  const changes = [];
  for (let at = 0; at < all.length; at += pieceSamples)
    changes.push(...activity.take(all.subarray(at, at + pieceSamples)));
  return changes.map(({ kind, sample }) => [kind, msOf(sample)]);
}

test('speech begins and ends at the right times, however the audio is cut', () => {
  const parts = [samples(500, 10), samples(400, 8_000), samples(600, 10), samples(300, 8_000), samples(600, 10)];
  const expected = [
    ['started', 500],
    ['stopped', 1_100],
    ['started', 1_500],
    ['stopped', 2_000],
  ];
  for (const size of [1, 33, 160, 10_000]) expect(heard(parts, size)).toEqual(expected);
});

test('silence, a faint hum and a click are not speech', () => {
  expect(heard([samples(3_000, 0)])).toEqual([]);
  expect(heard([samples(3_000, 20)])).toEqual([]);
  expect(heard([samples(500, 10), samples(30, 20_000), samples(500, 10)])).toEqual([]);
});

test('a listener that starts in the middle of speech hears it end', () => {
  const activity = new VoiceActivity(detection, rate, true);
  expect(activity.take(Int16Array.from([...samples(300, 8_000), ...samples(300, 10)]))).toEqual([
    { kind: 'stopped', sample: 500 * (rate / 1000) },
  ]);
});

test('new settings apply to the speech in progress, and what was learnt about the background stays', () => {
  const activity = new VoiceActivity(detection, rate);
  const background = samples(4_000, 600);
  activity.take(background);
  const speech = activity.take(samples(400, 12_000));
  activity.configure({ ...detection, silenceDurationMs: 60 });
  const changes = [...speech, ...activity.take(samples(400, 600))];
  expect(changes.map(({ kind, sample }) => [kind, msOf(sample)])).toEqual([
    ['started', 4_000],
    ['stopped', 4_460],
  ]);
});

test('a loud background is learnt, and speech above it is heard', () => {
  const background = samples(5_000, 600);
  const changes = heard([samples(500, 10), background, samples(400, 12_000), background]);
  // The background may be taken for speech at first, but not for long.
  expect(changes.at(-1)![0]).toBe('stopped');
  expect(changes.some(([kind, ms]) => kind === 'started' && Math.abs((ms as number) - 5_500) <= 40)).toBe(true);
});
