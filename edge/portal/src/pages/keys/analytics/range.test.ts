import { expect, test } from 'vitest';
import { isMeasure } from '../../usage/measures.ts';
import { rangeFromSearch } from './range.ts';

test('an address with the name of something that every object has is read like any other unknown one', () => {
  for (const name of ['toString', 'constructor', '__proto__']) {
    const range = rangeFromSearch(`?granularity=${name}&start=2026-01-01&end=2026-01-02`);
    expect(range).toEqual({ granularity: 'daily', start: '2026-01-01', end: '2026-01-02' });
    expect(isMeasure(name)).toBe(false);
  }
});
