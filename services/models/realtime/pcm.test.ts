import { describe, expect, test } from 'vitest';
import { decodeSamples, Resampler, samplesToBytes, wavFile } from './pcm.ts';

describe('G.711', () => {
  // From the tables of ITU-T G.711: a code and its 16-bit value.
  test.each([
    ['audio/pcmu', 0xff, 0],
    ['audio/pcmu', 0x7f, 0],
    ['audio/pcmu', 0x80, 32_124],
    ['audio/pcmu', 0x00, -32_124],
    ['audio/pcmu', 0xf0, 120],
    ['audio/pcma', 0xd5, 8],
    ['audio/pcma', 0x55, -8],
    ['audio/pcma', 0xaa, 32_256],
    ['audio/pcma', 0x2a, -32_256],
  ] as const)('%s %i is %i', (type, code, value) => {
    expect(Math.abs(decodeSamples({ type }, Buffer.from([code]))[0]! - value)).toBe(0);
  });
});

test('samples convert to bytes and back, except for an odd last byte', () => {
  const samples = Int16Array.from([0, 1, -1, 32_767, -32_768]);
  const bytes = samplesToBytes(samples);
  expect(decodeSamples({ type: 'audio/pcm', rate: 24_000 }, Buffer.concat([bytes, Buffer.from([9])]))).toEqual(samples);
});

test('a stream is resampled the same however it is cut, and to the right length', () => {
  const input = Int16Array.from({ length: 2_400 }, (_, index) => Math.round(Math.sin(index / 20) * 10_000));
  const whole = new Resampler(24_000, 16_000).take(input);
  expect(Math.abs(whole.length - 1_600)).toBeLessThanOrEqual(1);
  for (const size of [1, 7, 100, 999]) {
    const resampler = new Resampler(24_000, 16_000);
    const pieces: number[] = [];
    for (let at = 0; at < input.length; at += size) pieces.push(...resampler.take(input.subarray(at, at + size)));
    expect(pieces.slice(0, 1_590)).toEqual([...whole].slice(0, 1_590));
  }
  // A sine stays one: its value at 10 ms is that of the input there.
  expect(Math.abs(whole[160]! - input[240]!)).toBeLessThan(20);
  expect(new Resampler(8_000, 16_000).take(Int16Array.from([0, 100])).slice(0, 3)).toEqual(
    Int16Array.from([0, 50, 100]),
  );
});

test('a WAV file states its own length', () => {
  const wav = wavFile(new Int16Array(100), 8_000);
  expect(wav.length).toBe(244);
  expect(wav.readUInt32LE(4)).toBe(236);
  expect(wav.readUInt32LE(40)).toBe(200);
});
