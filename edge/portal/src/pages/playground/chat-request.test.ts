import { expect, test } from 'vitest';
import { requestOf, withoutPictures } from './chat-request.ts';

const cat = 'data:image/png;base64,AA';
const said = (content: string) => ({ role: 'user' as const, content });
const drew = (images: readonly string[], content = '') => ({
  role: 'assistant' as const,
  content,
  images,
  model: 'painter',
});
const settings = (model: string) => ({ model, system: '', temperature: '', maxTokens: '', sendsPictures: true });

test('the pictures that a model drew last are shown to it by the message after them, and to no other model', () => {
  const older = 'data:image/png;base64,BB';
  const history = [
    said('Draw a dog'),
    drew([older]),
    said('Now a cat'),
    drew([cat, 'javascript:1'], 'Here.'),
    said('Blue'),
  ];
  const blue = [
    { type: 'text', text: 'Blue' },
    { type: 'image_url', image_url: { url: cat } },
  ];
  const painted = requestOf([...history, drew([], 'Done.'), said('Thanks')], settings('painter'));
  expect(painted.messages.map(({ content }) => content)).toEqual([
    'Draw a dog',
    'Now a cat',
    'Here.',
    blue,
    'Done.',
    'Thanks',
  ]);
  const written = requestOf(history, settings('writer'));
  expect(written.messages.map(({ content }) => content)).toEqual(['Draw a dog', 'Now a cat', 'Here.', 'Blue']);
  expect(withoutPictures(requestOf(history, settings('painter')))).toEqual({ ...written, model: 'painter' });
  expect(withoutPictures(written)).toBe(written);
});
