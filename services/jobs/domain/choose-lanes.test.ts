import { expect, test } from 'vitest';
import { chooseLanes } from './choose-lanes.ts';

const lane = (tenantId: string, subjectId = tenantId, model = 'm') => ({ tenantId, subjectId, model });
/** Nine slots, anything in them, and callers in order. */
const free = {
  slots: 9,
  bounds: { perSubject: 100, perModel: 100 },
  modelSlots: new Map<string, number>(),
  random: () => 0.5,
};

test('organizations get slots in turn, the one that has waited longest first', () => {
  const { lanes, served } = chooseLanes([lane('a'), lane('b'), lane('c')], [], { ...free, slots: 5 });
  expect(lanes.map(({ tenantId, slots }) => [tenantId, slots])).toEqual([
    ['a', 2],
    ['b', 2],
    ['c', 1],
  ]);
  // Next time: c, a, b.
  expect(served).toEqual(['c', 'a', 'b']);
});

test('an organization’s turns are shared among its callers and models', () => {
  const { lanes } = chooseLanes([lane('a', 'k1'), lane('a', 'k2'), lane('b')], [], { ...free, slots: 4 });
  expect(Object.fromEntries(lanes.map(({ subjectId, slots }) => [subjectId, slots]))).toEqual({ k1: 1, k2: 1, b: 2 });
});

test('within an organization the next turn is random, so that nobody has all of one slot', () => {
  const lanes = [lane('a', 'k1'), lane('a', 'k2'), lane('a', 'k3')];
  const firstOf = (...draws: number[]) =>
    chooseLanes(lanes, [], { ...free, slots: 1, random: () => draws.shift()! }).lanes[0]!.subjectId;
  expect([firstOf(0, 0.3, 0.6), firstOf(0.6, 0, 0.3), firstOf(0.3, 0.6, 0)]).toEqual(['k1', 'k2', 'k3']);
});

test('whoever has reached a bound is left out, and the choice says so', () => {
  const running = [{ subjectId: 'k1', model: 'm', count: 2 }];
  const bounded = chooseLanes([lane('a', 'k1'), lane('b')], running, {
    ...free,
    bounds: { perSubject: 2, perModel: 5 },
  });
  expect(bounded.lanes.map(({ subjectId, slots }) => [subjectId, slots])).toEqual([['b', 2]]);
  expect(bounded.isBounded).toBe(true);
  const model = chooseLanes([lane('a'), lane('b', 'b', 'n')], [], { ...free, bounds: { perSubject: 9, perModel: 1 } });
  expect(model.lanes.map(({ slots }) => slots)).toEqual([1, 1]);
});

test('no more jobs of a model are chosen than it has slots, whoever asks, and others pass by', () => {
  const lanes = [lane('a', 'k1'), lane('a', 'k2'), lane('b'), lane('b', 'b', 'n'), lane('c', 'c', 'stopped')];
  const slots = new Map([
    ['m', 2],
    ['stopped', 0],
  ]);
  const { lanes: chosen, isBounded } = chooseLanes(lanes, [], { ...free, modelSlots: slots });
  expect(chosen.map(({ subjectId, model, slots }) => [subjectId, model, slots])).toEqual([
    ['k1', 'm', 1],
    ['b', 'm', 1],
    ['b', 'n', 7],
  ]);
  expect(isBounded).toBe(true);
});

test('with no lanes or no slots, nothing is chosen', () => {
  expect(chooseLanes([], [], free)).toEqual({ lanes: [], served: [], isBounded: false });
  expect(chooseLanes([lane('a')], [], { ...free, slots: 0 }).lanes).toEqual([]);
});

test('an organization keeps its turn where one of its callers has as many jobs running as it may', () => {
  const lanes = [lane('a', 'k1'), lane('a', 'k2'), lane('b')];
  const running = [{ subjectId: 'k1', model: 'm', count: 5 }];
  const choice = chooseLanes(lanes, running, { ...free, slots: 1, bounds: { perSubject: 5, perModel: 100 } });
  expect(choice.lanes.map(({ subjectId }) => subjectId)).toEqual(['k2']);
});
