import { expect, test } from 'vitest';
import { chooseLanes } from './choose-lanes.ts';

const lane = (tenantId: string, subjectId = tenantId, model = 'm') => ({ tenantId, subjectId, model });
const wide = { perSubject: 100, perModel: 100 };

test('each organization is given a slot in turn, the one that waits the longest first', () => {
  const { lanes, served } = chooseLanes([lane('a'), lane('b'), lane('c')], [], 5, wide);
  expect(lanes.map(({ tenantId, slots }) => [tenantId, slots])).toEqual([
    ['a', 2],
    ['b', 2],
    ['c', 1],
  ]);
  // Next time: c, a, b.
  expect(served).toEqual(['c', 'a', 'b']);
});

test('an organization’s turns are shared among its callers and models', () => {
  const { lanes } = chooseLanes([lane('a', 'k1'), lane('a', 'k2'), lane('b')], [], 4, wide);
  expect(Object.fromEntries(lanes.map(({ subjectId, slots }) => [subjectId, slots]))).toEqual({ k1: 1, k2: 1, b: 2 });
});

test('whoever is at a bound is left out, and the choice says so', () => {
  const running = [{ subjectId: 'k1', model: 'm', count: 2 }];
  const bounded = chooseLanes([lane('a', 'k1'), lane('b')], running, 9, { perSubject: 2, perModel: 5 });
  expect(bounded.lanes.map(({ subjectId, slots }) => [subjectId, slots])).toEqual([['b', 2]]);
  expect(bounded.isBounded).toBe(true);
  const model = chooseLanes([lane('a'), lane('b', 'b', 'n')], [], 9, { perSubject: 9, perModel: 1 });
  expect(model.lanes.map(({ slots }) => slots)).toEqual([1, 1]);
});

test('of no lanes, or for no slots, nothing is chosen', () => {
  expect(chooseLanes([], [], 9, wide)).toEqual({ lanes: [], served: [], isBounded: false });
  expect(chooseLanes([lane('a')], [], 0, wide).lanes).toEqual([]);
});
