import fc from 'fast-check';
import { expect, test } from 'vitest';
import { inexactAmount } from './inexact-amount.ts';

test.each([
  '9007199254740993',
  '1000000000.123456789',
  '0.10000000000000000001',
  '1e-400',
  '1e400',
  `0.${'0'.repeat(80)}1`,
])('an amount of %s is not what a double holds', (number) => {
  expect(inexactAmount(`{"a":1,"amount_usd" : ${number}}`)).toBe('amount_usd');
  expect(inexactAmount(`{"plan":[{"credit_usd":-${number}}]}`)).toBe('credit_usd');
});

test.each([
  '{"amount_usd":9007199254740992,"limit_usd":-0.10,"b_usd":1E3,"c_usd":1.5e-7,"d_usd":0.000,"e_usd":100000000000000000000}',
  '{"amount_usd":1.0000000000000000000000}',
  '{"amount":9007199254740993,"amount_usd":"9007199254740993","amount_usd_text":9007199254740993}',
  '{"text":"\\"amount_usd\\": 9007199254740993"}',
])('%s is exactly the amount that it says', (text) => {
  expect(inexactAmount(text)).toBeUndefined();
});

test('whatever a program writes is exactly what it holds', () => {
  fc.assert(fc.property(fc.double(), (amount) => inexactAmount(JSON.stringify({ a_usd: amount })) === undefined));
});

test('text that is long or full of quotes takes linear time', () => {
  const startMs = performance.now();
  inexactAmount(`{"a_usd":1${'0'.repeat(1_000_000)}1}`);
  inexactAmount(`{"a_usd"${' '.repeat(1_000_000)}}`);
  inexactAmount(`["${'_usd'.repeat(250_000)}"]`);
  inexactAmount(`[${'"",'.repeat(300_000)}0]`);
  // Each takes a few milliseconds; in quadratic time it would be minutes.
  expect(performance.now() - startMs).toBeLessThan(5_000);
});
