import { expect, test } from 'vitest';
import { isUuid, uuidv7, uuidv7Ms } from '#shared/ids.ts';
import { parseJobId, publicJobId, successEventId } from './job-id.ts';

test('a public id leads back to its job; anything else is not an id', () => {
  const id = uuidv7();
  expect(parseJobId(publicJobId(id))).toBe(id);
  for (const text of ['', 'job_', id, publicJobId(id).toUpperCase(), `${publicJobId(id)}0`, `${publicJobId(id)}\n`]) {
    expect(parseJobId(text), text).toBeNull();
  }
});

test('the event of a job is always the same, and shows when the job began', () => {
  const id = uuidv7();
  const event = successEventId(id, 1_780_000_000_123);
  expect(isUuid(event)).toBe(true);
  expect(event[14]).toBe('7');
  expect(uuidv7Ms(event)).toBe(1_780_000_000_123);
  expect(successEventId(id, 1_780_000_000_123)).toBe(event);
  expect(successEventId(uuidv7(), 1_780_000_000_123)).not.toBe(event);
});
