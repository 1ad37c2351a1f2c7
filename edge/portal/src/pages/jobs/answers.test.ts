import { expect, test } from 'vitest';
import { noParts } from '../playground/answer-parts.ts';
import { answersIn } from './answers.ts';

test.each([
  ['a transcript', { text: 'Hello.' }, [{ text: 'Hello.' }]],
  ['completions', { choices: [{ text: 'One' }, { text: 'Two' }] }, [{ text: 'One' }, { text: 'Two' }]],
  [
    'a chat with sources',
    { choices: [{ message: { content: 'So it is.[1]' } }], citations: ['https://one.example'] },
    [{ text: 'So it is.[1]', sources: [{ url: 'https://one.example', title: '' }] }],
  ],
  [
    'a chat that drew',
    { choices: [{ message: { content: null, images: [{ image_url: { url: 'data:image/png;base64,AA' } }] } }] },
    [{ images: ['data:image/png;base64,AA'] }],
  ],
  [
    'a chat that drew and said more than is shown',
    { choices: [{ message: { content: 'x'.repeat(200_001), images: [{ image_url: 'data:image/png;base64,AA' }] } }] },
    [{ images: ['data:image/png;base64,AA'] }],
  ],
  [
    'images',
    { data: [null, { b64_json: 'AA' }, { url: 'https://elsewhere.example/cat.png' }], output_format: 'webp' },
    [{ images: ['data:image/webp;base64,AA', 'https://elsewhere.example/cat.png'] }],
  ],
  ['vectors', { data: [{ embedding: [0.5] }] }, []],
  ['what no gateway knows', { choices: [null, 7, { message: null }], data: 'none', text: 7 }, []],
])('the answer in the result of a job is read from %s', (_, result, answers) => {
  expect(answersIn(result)).toEqual(answers.map((answer) => ({ ...noParts, ...answer })));
});
