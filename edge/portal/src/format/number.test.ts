import { expect, test } from 'vitest';
import { formatDurationMs, formatRate, formatUsd, formatUsdExact, jsonText } from './number.ts';

test('a duration is rounded before it is split: never 60 seconds next to minutes, never 1000 ms', () => {
  const shown = [0, 999.4, 999.6, 9_994, 9_996, 59_949, 59_950, 119_700, 3_599_600].map(formatDurationMs);
  expect(shown).toEqual([
    '0 ms',
    '999 ms',
    '1.00 s',
    '9.99 s',
    '10.0 s',
    '59.9 s',
    '1 min 0 s',
    '2 min 0 s',
    '60 min 0 s',
  ]);
});

test('a rate below ten keeps one decimal, so a slow model is not shown at 0 tokens a second', () => {
  expect([0, 0.42, 9.96, 12.3, 12_345].map(formatRate)).toEqual(['0', '0.4', '10', '12', '12.3K']);
});

test('a negative amount has a minus sign as wide as a digit instead of a hyphen, and zero has none', () => {
  expect([-12.5, -0.000000004, -0].map(formatUsd)).toEqual(['\u2212$12.50', '\u2212$0.000000004', '$0.00']);
  expect([-5.25, -0].map(formatUsdExact)).toEqual(['\u2212$5.25', '$0.00']);
});

test('the amounts of an audit event are shown without an exponent, and everything else as JSON', () => {
  expect([0.000000001, -4.2e-7, 1_000_000, '1e-9', null, ['a', 1]].map(jsonText)).toEqual([
    '0.000000001',
    '-0.00000042',
    '1000000',
    '"1e-9"',
    'null',
    '["a",1]',
  ]);
});
