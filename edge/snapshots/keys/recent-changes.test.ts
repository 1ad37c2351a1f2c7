import { expect, test } from 'vitest';
import { RecentChanges } from './recent-changes.ts';

test('a forgotten change goes on ruling out answers from before it, even once older changes are forgotten after it', () => {
  const changes = new RecentChanges();
  // The principal in an event may be newer than the event, and than those that follow it.
  changes.note('newer', 100_000n);
  for (let version = 1n; version <= 10_001n; version += 1n) changes.note(`${version}`, version);
  expect(changes.isCurrent(99_999n, ['newer'])).toBe(false);
  expect(changes.isCurrent(100_000n, ['newer'])).toBe(true);
});
