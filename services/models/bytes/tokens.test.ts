import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { expect, test } from 'vitest';
import { loadTokenizer, piecesOf } from './tokens.ts';

const asPlainText = { disallowedSpecial: new Set<string>() };
const exactly = (text: string): number => countTokens(text, asPlainText);

test.each([
  '',
  'Hello, world!',
  'Grüße 🦊 漢字\r\n\r\n  indented\ttext',
  `${'a'.repeat(400)} ${' '.repeat(399)}b`,
  'A longer text of ordinary words.\n'.repeat(8_000),
  '/usr/lib/node_modules\n'.repeat(1_000),
])('counts text %# as gpt-tokenizer does', async (text) => {
  const tokens = await loadTokenizer();
  const count = await tokens.count(text);
  expect(count).toBe(exactly(text));
  expect(await tokens.encode(text)).toHaveLength(count);
});

test('a text of words and lines counts the same in pieces and whole', async () => {
  const tokens = await loadTokenizer();
  const words = fc.constantFrom('word', 'Wörter', '漢字', "don't", '12345', '!', '//', '};', '🦊', '</a>', '|');
  const spaces = fc.constantFrom('', ' ', '  ', '\t', '\n', '\r\n', ' \n', '\n  ', '\u3000', '\n/', '\u00a0');
  const text = fc
    .array(fc.tuple(words, spaces), { minLength: 1_500, maxLength: 3_000 })
    .map((pairs) => pairs.map((pair) => pair.join('')).join(''));
  await fc.assert(
    fc.asyncProperty(text, async (mixed) => {
      expect([...piecesOf(mixed)].length).toBeGreaterThan(1);
      expect(await tokens.count(mixed)).toBe(exactly(mixed));
    }),
    { numRuns: 30 },
  );
});

test.each(['x', ' ', '\u3000', '漢', '🦊', '!', 'x\n/', '!\n'])(
  'a long run of %j is cut into short pieces, without loss and between characters',
  (characters) => {
    const text = `x${characters.repeat(100_000)}`;
    const pieces = [...piecesOf(text)];
    expect(pieces.join('')).toBe(text);
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThanOrEqual(1_400);
    expect(pieces.every((piece) => piece.isWellFormed())).toBe(true);
  },
);

const letters = (length: number): string =>
  randomBytes(2 * length)
    .toString('base64')
    .replace(/[^a-z]/g, '')
    .slice(0, length);

test.each([
  ['letters', letters(1 << 17)],
  ['base64', randomBytes(1 << 17).toString('base64')],
  ['words of 399 letters', letters(1 << 17).replace(/.{399}/g, '$& ')],
  [
    'any characters',
    randomBytes(1 << 17)
      .toString('utf16le')
      .toWellFormed(),
  ],
  ['words that are as many as can be', letters(1 << 17).replace(/.{9}/g, '$& ')],
])(
  'many texts of %s are counted at once and the event loop stands still for milliseconds alone',
  async (_kind, text) => {
    const tokens = await loadTokenizer();
    const cpuMs = (): number => process.threadCpuUsage().user / 1_000;
    let [total, longest, isOver] = [0, 0, false];
    const watch = async (): Promise<void> => {
      for (let last = cpuMs(); !isOver; ) {
        await nextTurn();
        const now = cpuMs();
        longest = Math.max(longest, now - last);
        total += now - last;
        last = now;
      }
    };
    const watching = watch();
    const size = 1 << 13;
    await Promise.all(
      Array.from({ length: text.length / size }, (_, part) => tokens.count(text.slice(part * size, (part + 1) * size))),
    );
    isOver = true;
    await watching;
    expect(longest).toBeLessThan(Math.max(50, total / 5));
  },
);

test('of a text of many megabytes, one is counted and the rest extrapolated', async () => {
  const tokens = await loadTokenizer();
  const [sentence, row] = ['A longer text of ordinary words.\n', '| 12.5 | 0.75 | none |\n'];
  const [sentences, rows] = [2 ** 23 / sentence.length, 2 ** 23 / row.length];
  const expected = Math.floor(sentences) * exactly(sentence) + Math.floor(rows) * exactly(row);
  const count = await tokens.count(sentence.repeat(sentences) + row.repeat(rows));
  expect(Math.abs(count - expected) / expected).toBeLessThan(0.01);
});

test('counting stops soon after the maximum', async () => {
  const tokens = await loadTokenizer();
  const count = await tokens.count('word '.repeat(1_000_000), 1_000);
  expect(count).toBeGreaterThan(1_000);
  expect(count).toBeLessThan(5_000);
});

test('the first tokens of a text never end within a character', async () => {
  const tokens = await loadTokenizer();
  const text = '🦊🐼🦄 漢字 and more';
  const total = await tokens.count(text);
  for (let max = 0; max <= total; max++) {
    const first = await tokens.first(text, max);
    expect(first).toMatchObject({ tokens: max, whole: max === total });
    expect(text.startsWith(first.text)).toBe(true);
  }
});

test('a text is cut, and tokens are decoded, as if none had been cut inside a character before', async () => {
  const tokens = await loadTokenizer();
  const text = 'a 🦩🦩 b';
  const ids = await tokens.encode(text);
  const cuts = ['', 'a', 'a ', 'a ', 'a 🦩', 'a 🦩', 'a 🦩', 'a 🦩🦩'];
  for (const [max, cut] of cuts.entries()) {
    expect(await tokens.first(text, max)).toEqual({ text: cut, tokens: max, whole: false });
    expect(tokens.decode(ids.slice(0, 2))?.startsWith('a ')).toBe(true);
    expect(tokens.decode(ids)).toBe(text);
  }
  expect(tokens.decode([...ids, 199_998])).toBeNull();
});
