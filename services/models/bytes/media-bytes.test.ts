import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { mediaBytesIn } from './media-bytes.ts';

const picture = randomBytes(150_000).toString('base64');
const body = (text: string) =>
  Buffer.from(`{"messages":[{"role":"user","content":[{"url":"data:image/png;base64,${text}"}]}]}`);

test.each([
  ['base64', picture],
  ['base64 of PHP', picture.replaceAll('/', '\\/')],
  ['base64 of .NET', picture.replaceAll('+', '\\u002B')],
  ['base64url', picture.replaceAll('+', '-').replaceAll('/', '_')],
])('%s is media, to within two blocks', (_what, text) => {
  const media = mediaBytesIn(body(text));
  expect(media).toBeLessThanOrEqual(text.length);
  expect(media).toBeGreaterThan(text.length - 2 * 4096);
});

test.each([
  ['prose', 'Of all the words that there are, these are a few. '.repeat(3_000)],
  ['Chinese', '模型网关模型网关'.repeat(10_000)],
  ['Chinese in escapes', '\\u6a21\\u578b\\u7f51\\u5173'.repeat(8_000)],
  ['minified code', 'a=>b.c(\\"d\\",e),'.repeat(10_000)],
  ['a list of addresses', 'https://www.example.com/some/page/of/many\\n'.repeat(3_000)],
  ['a table of numbers', `${'1234.5,67.8,'.repeat(20)}\\n`.repeat(500)],
])('%s is not media', (_what, text) => {
  expect(mediaBytesIn(body(text))).toBe(0);
});

test('the token numbers that clients send instead of a text, without a space between them, are not media', () => {
  const input = Array.from({ length: 50_000 }, (_, index) => (index * 7919) % 100_000);
  expect(mediaBytesIn(Buffer.from(JSON.stringify({ input })))).toBe(0);
});
