import { expect, test } from 'vitest';
import { Breaker } from './breaker.ts';

const failing = (times: number, nowMs = 0): Breaker => {
  const breaker = new Breaker();
  for (let time = 0; time < times; time++) breaker.fail(nowMs);
  return breaker;
};

test('the fifth failure in a row opens it, and a success in between resets the count', () => {
  expect(failing(4).admits(0)).toBe(true);
  expect(failing(5).admits(0)).toBe(false);
  const breaker = failing(4);
  breaker.succeed(0);
  breaker.fail(0);
  expect(breaker.admits(0)).toBe(true);
});

test('once it has been open for a while it lets exactly one trial through', () => {
  const breaker = failing(5);
  expect(breaker.admits(999)).toBe(false);
  expect(breaker.admits(1_000)).toBe(true);
  expect(breaker.begin(1_000)).toBe(true);
  expect(breaker.admits(1_000)).toBe(false);
  breaker.endTrial(1_000);
  expect(breaker.admits(1_000)).toBe(true);
});

test('a good trial closes it, a bad one opens it for longer, but never for more than 15 s', () => {
  const breaker = failing(5);
  let nowMs = 0;
  const openMs: number[] = [];
  for (let trial = 0; trial < 6; trial++) {
    let waitedMs = 0;
    while (!breaker.admits(nowMs + waitedMs)) waitedMs += 1_000;
    openMs.push(waitedMs);
    nowMs += waitedMs;
    breaker.begin(nowMs);
    breaker.fail(nowMs);
    breaker.endTrial(nowMs);
  }
  expect(openMs).toEqual([1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
  nowMs += 15_000;
  breaker.begin(nowMs);
  breaker.succeed(nowMs);
  breaker.endTrial(nowMs);
  expect(breaker.state(nowMs)).toBe('closed');
  expect(breaker.begin(nowMs)).toBe(false);
});

test('a trial whose answer has begun lets others through, until one fails before any has succeeded', () => {
  const breaker = failing(5);
  breaker.begin(1_000);
  breaker.answered(1_000);
  expect(breaker.begin(1_000)).toBe(false);
  breaker.fail(1_000);
  breaker.endTrial(1_000);
  expect([breaker.admits(2_999), breaker.admits(3_000)]).toEqual([false, true]);
  breaker.begin(3_000);
  breaker.answered(3_000);
  breaker.succeed(3_000);
  breaker.endTrial(3_000);
  breaker.fail(3_000);
  expect(breaker.admits(3_000)).toBe(true);
});

test('a trial whose answer goes on keeps no other away once the breaker has opened anew', () => {
  const breaker = failing(5);
  breaker.begin(1_000);
  breaker.answered(1_100);
  breaker.fail(1_200, 1_150);
  expect([breaker.admits(3_199), breaker.admits(3_200)]).toEqual([false, true]);
  breaker.begin(3_200);
  breaker.endTrial(1_000);
  expect(breaker.admits(3_200)).toBe(false);
  breaker.endTrial(3_200);
  expect(breaker.admits(3_200)).toBe(true);
});

test('failures of calls that began before it opened neither keep it open nor open it again for longer', () => {
  const breaker = failing(5, 500);
  breaker.fail(1_400, 400);
  expect(breaker.admits(1_500)).toBe(true);
  breaker.fail(1_500, 400);
  expect(breaker.begin(1_500)).toBe(true);
  breaker.answered(1_600);
  breaker.fail(1_700, 400);
  expect(breaker.admits(1_700)).toBe(true);
  breaker.fail(1_800, 1_500);
  breaker.endTrial(1_500);
  expect([breaker.admits(3_799), breaker.admits(3_800)]).toEqual([false, true]);
});

test('closed by a call that began before it opened, it opens again when others of that time fail', () => {
  const breaker = failing(5, 500);
  breaker.answered(600, 400);
  breaker.fail(700, 400);
  expect([breaker.admits(2_699), breaker.admits(2_700)]).toEqual([false, true]);
  breaker.succeed(2_700, 400);
  for (let time = 0; time < 5; time++) breaker.fail(2_800, 400);
  expect(breaker.admits(2_800)).toBe(false);
});
