import { expect, test } from 'vitest';
import { ModelRoom } from './model-room.ts';

test('a model that refused a job gets none for a second, then one at a time, then more as they succeed', () => {
  const room = new ModelRoom();
  const slots = (nowMs: number) => Object.fromEntries(room.slots(nowMs));
  room.passed('m');
  expect(slots(0)).toEqual({});
  room.refused('m', 5_000);
  room.refused('other', 5_500);
  expect(slots(5_999)).toEqual({ m: 0, other: 0 });
  expect(slots(6_000)).toEqual({ m: 1, other: 0 });
  // Its calls end, so it has room at once.
  room.passed('m');
  expect(slots(5_999)).toEqual({ m: 2, other: 0 });
  room.passed('m');
  expect(slots(60_000)).toEqual({ m: 4, other: 1 });
  for (let call = 3; call <= 33; call++) room.passed('m');
  expect(slots(60_000)).toEqual({ other: 1 });
});
