import { expect, test } from 'vitest';
import { lastingTurns } from './lasting-turns.ts';

const question = { role: 'user', content: 'Draw a cat' } as const;
const drawing = (size: number) => ({
  role: 'assistant' as const,
  content: 'Here it is.',
  images: [`data:image/png;base64,${'A'.repeat(size)}`],
  note: '1 s in total',
});

test('of images that do not fit into what a browser keeps the latest are kept, and the others said to be lost', () => {
  const [small, large] = [drawing(100_000), drawing(1_500_000)];
  const kept = lastingTurns([question, large, question, large, question, small]);
  expect(kept.map(({ images }) => images?.length)).toEqual([0, 0, 0, 1, 0, 1]);
  expect(kept.map(({ content }) => content)).toEqual(Array(3).fill(['Draw a cat', 'Here it is.']).flat());
  expect(kept[1]!.note).toBe('1 s in total · Not all images could be kept');
  expect([kept[3]!.note, kept[5]!.note]).toEqual(Array(2).fill('1 s in total'));
  expect(JSON.stringify(kept).length).toBeLessThan(2_100_000);
});

test('of a conversation whose words alone are too long nothing is kept, rather than a part as if it were all', () => {
  expect(lastingTurns([question, { role: 'assistant', content: 'word '.repeat(500_000) }])).toEqual([]);
});
