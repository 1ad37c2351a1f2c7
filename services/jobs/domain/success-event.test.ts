import { expect, test } from 'vitest';
import { isUuid, uuidv7, uuidv7Ms } from '#shared/ids.ts';
import { successEventId } from './success-event.ts';

test('the event of a job is always the same, and shows when the job began', () => {
  const id = uuidv7();
  const event = successEventId(id, 1_780_000_000_123);
  expect(isUuid(event)).toBe(true);
  expect(event[14]).toBe('7');
  expect(uuidv7Ms(event)).toBe(1_780_000_000_123);
  expect(successEventId(id, 1_780_000_000_123)).toBe(event);
  expect(successEventId(uuidv7(), 1_780_000_000_123)).not.toBe(event);
});
