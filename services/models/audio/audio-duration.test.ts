import { expect, test } from 'vitest';
import { estimatedDurationMs } from './audio-duration.ts';
import { wavHeader } from './wav-header.ts';

test('the length of a WAV is that of its data, however much a stream claims', () => {
  const header = Buffer.from(wavHeader(32_000, 16_000));
  expect(estimatedDurationMs(header, 44 + 32_000)).toBe(1_000);
  header.writeUInt32LE(0xffffffff, 40);
  expect(estimatedDurationMs(header, 44 + 48_000)).toBe(1_500);
});

test('a WAV is as long as its bytes, whatever its header says about their rate or number', () => {
  const header = Buffer.from(wavHeader(32_000, 16_000));
  header.writeUInt32LE(0xffffffff, 28);
  header.writeUInt32LE(2, 40);
  expect(estimatedDurationMs(header, 44 + 48_000)).toBe(1_500);
});

test('a WAV with two formats is as long as the slower one makes it, since decoders differ on which counts', () => {
  const slow = Buffer.from(wavHeader(0, 2_000));
  const fast = Buffer.from(wavHeader(0, 48_000));
  const broken = Buffer.from(wavHeader(0, 0));
  for (const [one, other] of [
    [slow, fast],
    [fast, slow],
    [slow, broken],
    [broken, slow],
  ] as const) {
    const header = Buffer.concat([one.subarray(0, 36), other.subarray(12)]);
    expect(estimatedDurationMs(header, header.length + 48_000)).toBe(12_000);
  }
});

test('GSM audio in a WAV uses the stated rate, up to that of other compressed speech', () => {
  const header = Buffer.from(wavHeader(16_250, 8_000));
  header.writeUInt16LE(0x31, 20);
  header.writeUInt16LE(0, 34);
  header.writeUInt32LE(1_625, 28);
  expect(estimatedDurationMs(header, 44 + 16_250)).toBe(10_000);
  header.writeUInt32LE(0xffffffff, 28);
  header.writeUInt16LE(32, 34);
  expect(estimatedDurationMs(header, 44 + 16_000)).toBe(2_000);
});

test('no header makes a file shorter than the richest sound of its size', () => {
  const header = Buffer.from(wavHeader(0, 16_000));
  header.writeUInt32LE(0xffffffff, 24);
  header.writeUInt16LE(0xffff, 34);
  expect(estimatedDurationMs(header, 15_360_000)).toBe(10_000);
});

test('the length of a FLAC is in its STREAMINFO', () => {
  const flac = Buffer.alloc(42);
  flac.write('fLaC', 0, 'latin1');
  // 44,100 Hz in 20 bits, two channels and 16 bits a sample, then 441,000 samples in 36 bits.
  flac.writeUIntBE((44_100 << 4) | 0b0010, 18, 3);
  flac[21] = 0xf0;
  flac.writeUInt32BE(441_000, 22);
  expect(estimatedDurationMs(flac, 500_000)).toBe(10_000);
});

test('a FLAC is never shorter than its bytes would be without compression', () => {
  const flac = Buffer.alloc(42);
  flac.write('fLaC', 0, 'latin1');
  // 16,000 Hz, one channel and 16 bits a sample, then one sample.
  flac.writeUIntBE((16_000 << 4) | 0b0000, 18, 3);
  flac[21] = 0xf0;
  flac.writeUInt32BE(1, 22);
  expect(estimatedDurationMs(flac, 320_000)).toBe(10_000);
});

test('the length of an MP3 follows from the bit rate of its first frame after its tag', () => {
  const frame = Buffer.from([0xff, 0xfb, 0x90, 0x00]); // MPEG-1 layer III, 128 kbit/s
  expect(estimatedDurationMs(frame, 160_000)).toBe(10_000);
  const tag = Buffer.concat([Buffer.from('ID3\x04\0\0\0\0\x01\x00', 'latin1'), Buffer.alloc(128), frame]);
  expect(estimatedDurationMs(tag, 138 + 160_000)).toBe(10_000);
});

test('other formats are estimated, and nothing is longer than a day', () => {
  expect(estimatedDurationMs(Buffer.from('OggS'), 80_000)).toBe(10_000);
  expect(estimatedDurationMs(Buffer.alloc(0), 0)).toBe(0);
  expect(estimatedDurationMs(Buffer.alloc(0), 1e12)).toBe(86_400_000);
});
