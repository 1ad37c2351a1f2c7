import { expect, test } from 'vitest';
import { memoryGrowth } from '../../../test/support/memory.ts';
import { PulledExchange } from './exchange.ts';
import { WholeAnswerReader } from './whole-answer-reader.ts';

const mebibyte = 1024 * 1024;

test('an answer that comes byte by byte is read as it was sent, and takes little more memory than its bytes', async () => {
  const text = JSON.stringify({ text: 'x'.repeat(500_000) });
  const reader = new WholeAnswerReader((body) => ({ forward: [body], reported: {}, counted: async () => ({}) }));
  const growthBytes = await memoryGrowth(16 * mebibyte, async () => {
    for (const byte of Buffer.from(text)) reader.push(Buffer.from([byte]));
  });
  expect(reader.heldBytes).toBe(text.length);
  expect(growthBytes).toBeLessThan(16 * mebibyte);
  expect(Buffer.concat(reader.end(false).forward).toString()).toBe(text);
});

test('an upstream that sends single bytes which nobody takes is paused after some thousand, and goes on once they are taken', () => {
  const exchange = new PulledExchange();
  let isPaused = false;
  exchange.attach({
    pause: () => {
      isPaused = true;
    },
    resume: () => {
      isPaused = false;
    },
    abort: () => {},
  });
  let sent = 0;
  while (!isPaused && sent < mebibyte) {
    exchange.onData(Buffer.from('x'));
    sent += 1;
  }
  expect(sent).toBeLessThan(10_000);
  while (exchange.takeData() !== undefined) sent -= 1;
  expect([sent, isPaused]).toEqual([0, false]);
});
