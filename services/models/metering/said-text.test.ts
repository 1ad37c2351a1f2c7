import { expect, test } from 'vitest';
import type { Tokenizer } from '../bytes/tokens.ts';
import { SaidText } from './said-text.ts';

/** Takes each letter for a token. */
const letters = { count: async (text: string) => text.length } as Tokenizer;

test.each([
  ['in pieces', Array.from({ length: 40 }, () => 'x'.repeat(1_000))],
  ['in one piece', ['x'.repeat(40_000)]],
])(
  'a text that is longer than what is kept of it, and came %s, has as many tokens for its length',
  async (_how, pieces) => {
    const said = new SaidText();
    for (const piece of pieces) said.delta(piece);
    expect(await said.tokens(letters)).toBe(40_000);
    expect(await said.tokens(letters, 'y'.repeat(40_001))).toBe(40_001);
  },
);

test('a text has at least a token for each piece that brought it, by speaker or not', async () => {
  const said = new SaidText();
  for (let piece = 0; piece < 3; piece += 1) said.delta('');
  expect(await said.tokens(letters)).toBe(3);
  said.segment('four');
  expect(await said.tokens(letters)).toBe(4);
});
