import { expect, test } from 'vitest';
import { memoryGrowth } from '../../../test/support/memory.ts';
import { WholeAnswerReader } from './whole-answer-reader.ts';

test('an answer that comes byte by byte takes hardly more memory than its bytes', async () => {
  const bytes = 500_000;
  const boundBytes = 8 * 1024 * 1024;
  let read: Buffer | undefined;
  const growthBytes = await memoryGrowth(boundBytes, async () => {
    const reader = new WholeAnswerReader((body) => {
      read = body;
      return null;
    });
    for (let count = 0; count < bytes; count += 1) reader.push(Buffer.from('x'));
    // Looked at while the answer is unfinished.
    await new Promise((resolve) => setTimeout(resolve, 40));
    reader.end(false);
  });
  expect(read?.equals(Buffer.alloc(bytes, 'x'))).toBe(true);
  expect(growthBytes).toBeLessThan(boundBytes);
});
