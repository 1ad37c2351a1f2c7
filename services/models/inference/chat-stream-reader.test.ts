import { expect, test } from 'vitest';
import { systemClock } from '#shared/clock.ts';
import { loadTokenizer } from '../bytes/tokens.ts';
import { allMeasures } from '../domain/price.ts';
import { type CallTools, createCallTools } from './call-tools.ts';
import { ChatStreamReader } from './chat-stream-reader.ts';
import type { UsageBound } from './usage-bound.ts';

const tokenizer = await loadTokenizer();

async function countedOf(pieces: readonly string[]): Promise<number> {
  const reader = new ChatStreamReader({
    chat: {
      operation: 'chat',
      includeUsage: false,
      mintId: () => 'chatcmpl-0123456789abcdef',
      createdSeconds: 1,
      model: 'acme/large',
      answers: 1,
    },
    tools: { tokenizer: async () => tokenizer } as CallTools,
    bound: { believed: () => null, counted: (tokens: number) => tokens } as unknown as UsageBound,
    countInputTokens: async () => 0,
    ownText: (text) => text,
  });
  for (const content of pieces) {
    reader.push(Buffer.from(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`));
  }
  reader.push(Buffer.from('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'));
  const end = reader.end(false);
  expect(end.failure).toBeNull();
  return allMeasures(await end.counted()).outputTokens;
}

test('tokens that an upstream does not report are counted to the end of a long stream, in many pieces or in one', async () => {
  const piece = ' ten words that stand for an answer of some length'.repeat(1_000);
  const whole = await tokenizer.count(piece.repeat(60));
  for (const pieces of [Array.from({ length: 60 }, () => piece), [piece.repeat(60)], ['', piece, piece.repeat(59)]]) {
    const counted = await countedOf(pieces);
    expect(counted / whole).toBeGreaterThan(0.99);
    expect(counted / whole).toBeLessThan(1.01);
  }
});

test('a vocabulary that could not be loaded once, as by a process without free descriptors, is loaded at the next call', async () => {
  let loads = 0;
  const tools = createCallTools(systemClock, async () => {
    loads += 1;
    if (loads === 1) throw new Error('too many open files');
    return tokenizer;
  });
  await expect(tools.tokenizer()).rejects.toThrow('too many open files');
  const [first, second] = await Promise.all([tools.tokenizer(), tools.tokenizer()]);
  expect([first, second, loads]).toEqual([tokenizer, tokenizer, 2]);
  await tools.close();
});
