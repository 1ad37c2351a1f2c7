import { expect, test } from 'vitest';
import { requireQuota } from './key-quota.ts';

test.each([
  [
    10,
    10,
    'allows each user 10 API keys, and you have 10. Delete one that you no longer need, or ask for a higher limit.',
  ],
  [1, 1, 'allows each user 1 API key, and you have 1. Delete one that you no longer need, or ask for a higher limit.'],
  [
    15,
    10,
    'allows each user 10 API keys, and you have 15. Delete 6 that you no longer need, or ask for a higher limit.',
  ],
  [0, 0, 'allows each user 0 API keys, and you have 0. Ask for a higher limit.'],
  [2, 0, 'allows each user 0 API keys, and you have 2. Ask for a higher limit.'],
])('who has %i keys of %i is told what would allow another', (keys, quota, says) => {
  expect(() => requireQuota(keys, quota)).toThrow(`Your organization ${says}`);
});
