import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { expect, test } from 'vitest';
import { loadTokenizer, splitLongRuns } from './tokens.ts';

const asPlainText = { disallowedSpecial: new Set<string>() };

test.each([
  '',
  'Hello, world!',
  'Grüße 🦊 漢字\r\n\r\n  indented\ttext',
  `${'a'.repeat(400)} ${' '.repeat(399)}b`,
  'A longer text of ordinary words.\n'.repeat(8_000),
])('counts text %# as gpt-tokenizer does', async (text) => {
  const tokens = await loadTokenizer();
  expect(tokens.count(text)).toBe(countTokens(text, asPlainText));
  expect(tokens.encode(text)).toHaveLength(tokens.count(text));
});

test.each(['x', ' ', '\u3000', '漢', '🦊', '!'])(
  'a long run of %j is split, without loss and within characters',
  (character) => {
    const text = `x${character.repeat(100_000)}`;
    const pieces = splitLongRuns(text);
    expect(pieces.join('')).toBe(text);
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThanOrEqual(401);
    expect(pieces.every((piece) => piece.isWellFormed())).toBe(true);
  },
);

test('counting stops soon after the maximum', async () => {
  const tokens = await loadTokenizer();
  const text = 'word '.repeat(1_000_000);
  const count = tokens.count(text, 1_000);
  expect(count).toBeGreaterThan(1_000);
  expect(count).toBeLessThan(50_000);
});

test('the first tokens of a text never end inside a character', async () => {
  const tokens = await loadTokenizer();
  const text = '🦊🐼🦄 漢字 and more';
  const total = tokens.count(text);
  for (let max = 0; max <= total; max++) {
    const first = tokens.first(text, max);
    expect(first).toMatchObject({ tokens: max, whole: max === total });
    expect(text.startsWith(first.text)).toBe(true);
  }
});
