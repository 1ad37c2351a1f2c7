import { expect, test } from 'vitest';
import { freeBytesOf } from './upload-room.ts';

test('what is free on a disk is counted in the blocks that it has, not in those in which it would rather be written', () => {
  const disk = { blocks: 1_000, bavail: 500, bsize: 1_048_576, frsize: 4_096 };
  expect(freeBytesOf(disk)).toBe(2_048_000);
  expect(freeBytesOf({ ...disk, blocks: 0, bavail: 0 })).toBe(Number.POSITIVE_INFINITY);
});
