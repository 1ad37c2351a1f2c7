import { expect, test } from 'vitest';
import { AudioLength } from './audio-length.ts';
import { wavHeader } from './wav-header.ts';

const lengthOf = (bytes: number, readMs: number | null, head: Buffer = Buffer.from('OggS')) =>
  new AudioLength({ head, bytes, content: Buffer.alloc(0) }, { read: async () => readMs });

test('the charge is for what was read, but for no less than its bytes can hold and no more than a day', async () => {
  expect(await lengthOf(80_000, 60_000).measuredMs({ heardMs: 90_000 })).toBe(60_000);
  expect(await lengthOf(15_360_000, 1).measuredMs()).toBe(10_000);
  expect(await lengthOf(80_000, 1e12).measuredMs()).toBe(86_400_000);
});

test('an unreadable file is charged by its estimate, or more if more was heard', async () => {
  const length = lengthOf(80_000, null);
  expect(await length.measuredMs()).toBe(10_000);
  expect(await length.measuredMs({ heardMs: 9_000 })).toBe(10_000);
  expect(await length.measuredMs({ heardMs: 12_000 })).toBe(12_000);
});

test('a file whose head tells its length is not read', async () => {
  expect(await lengthOf(44 + 32_000, 60_000, wavHeader(32_000, 16_000)).measuredMs()).toBe(1_000);
});

test('a file is read once, however often its length is asked for', async () => {
  let reads = 0;
  const read = async () => {
    reads += 1;
    return 60_000;
  };
  const length = new AudioLength({ head: Buffer.from('OggS'), bytes: 80_000, content: Buffer.alloc(0) }, { read });
  length.begin();
  expect(await Promise.all([length.measuredMs(), length.measuredMs()])).toEqual([60_000, 60_000]);
  expect(reads).toBe(1);
});
