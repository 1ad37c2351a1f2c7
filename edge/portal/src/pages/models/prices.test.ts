import { expect, test } from 'vitest';
import { hasBegun, priceAt } from './prices.ts';

test('a price that was set to apply at once applies, though the clock of who looks at it is behind', () => {
  const at = (second: number) => new Date(Date.UTC(2030, 0, 1, 0, 0, second));
  const price = (createdAt: Date, from: Date) => ({
    created_at: createdAt.toISOString(),
    effective_from: from.toISOString(),
  });
  const [before, atOnce, later] = [price(at(0), at(0)), price(at(50), at(50)), price(at(50), at(55))];
  const prices = [before, atOnce, later];
  expect(priceAt(prices, at(10).getTime())).toBe(atOnce);
  expect(priceAt(prices, at(55).getTime())).toBe(later);
  expect(prices.map((one) => hasBegun(one, at(10).getTime()))).toEqual([true, true, false]);
});
