import { expect, test, vi } from 'vitest';
import { isUuid, isUuidv7, parseJobId, publicJobId, uuidv7, uuidv7After, uuidv7Ms } from './ids.ts';

test('ids are version 7 of the RFC variant, always increase, and contain their time', () => {
  const before = Date.now();
  const ids = Array.from({ length: 20_000 }, uuidv7);
  expect(ids.every((id) => isUuid(id) && id[14] === '7' && /[89ab]/.test(id[19]!))).toBe(true);
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  for (const id of ids) {
    expect(uuidv7Ms(id)).toBeGreaterThanOrEqual(before);
    expect(uuidv7Ms(id)).toBeLessThanOrEqual(Date.now());
  }
});

test('no two ids have the same random part', () => {
  const tails = Array.from({ length: 5_000 }, () => uuidv7().slice(-12));
  expect(new Set(tails).size).toBe(tails.length);
});

test('when a clock that was ahead is corrected, ids have the right time again; a small step back leaves them in order', () => {
  const now = Date.now();
  const clock = vi.spyOn(Date, 'now');
  try {
    clock.mockReturnValue(now + 400 * 86_400_000);
    uuidv7();
    clock.mockReturnValue(now);
    const right = uuidv7();
    expect(uuidv7Ms(right)).toBe(now);
    clock.mockReturnValue(now - 5_000);
    const next = uuidv7();
    expect(next > right).toBe(true);
    expect(uuidv7Ms(next)).toBe(now);
  } finally {
    clock.mockRestore();
  }
});

test('an id created to follow another does, even if the other is from a clock that was ahead', () => {
  const earlier = uuidv7();
  const next = uuidv7After(earlier);
  expect(next > earlier).toBe(true);
  expect(uuidv7After(null) > next).toBe(true);
  const ahead = 'fe9f0000-0000-7fff-8fff-ffffffffffff';
  const ids = [ahead];
  for (let count = 0; count < 1_000; count++) ids.push(uuidv7After(ids.at(-1)!));
  expect(ids[1]).toBe('fe9f0000-0000-7fff-9000-000000000000');
  expect(ids.toSorted()).toEqual(ids);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids.every((id) => isUuid(id) && id[14] === '7' && /[89ab]/.test(id[19]!))).toBe(true);
});

test('a UUIDv7 has the version, the variant that has versions, and nothing around it', () => {
  const id = uuidv7();
  expect([id, id.toUpperCase()].map(isUuidv7)).toEqual([true, true]);
  const withDigit = (place: number, digit: string) => id.slice(0, place) + digit + id.slice(place + 1);
  const others = [withDigit(14, '4'), withDigit(19, 'c'), `${id}0`, ` ${id}`, ''];
  expect(others.map(isUuidv7)).toEqual(others.map(() => false));
});

test('the public id of a job leads back to its job; anything else is not an id', () => {
  const id = uuidv7();
  expect(parseJobId(publicJobId(id))).toBe(id);
  for (const text of ['', 'job_', id, publicJobId(id).toUpperCase(), `${publicJobId(id)}0`, `${publicJobId(id)}\n`]) {
    expect(parseJobId(text), text).toBeNull();
  }
});
