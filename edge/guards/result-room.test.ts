import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { ResultRoom } from './result-room.ts';

const overloaded = expect.objectContaining({ reason: ErrorReason.OVERLOADED });

test('a result that would be the only one is read however large it is, and no other next to it until it is taken', () => {
  const room = new ResultRoom(100);
  const giveBack = room.take('one', 1_000);
  expect(() => room.take('two', 1)).toThrow(overloaded);
  giveBack();
  room.take('two', 1_000);
});

test('results of several users are read up to the room, to the byte', () => {
  const room = new ResultRoom(100);
  room.take('one', 60);
  expect(() => room.take('two', 41)).toThrow(overloaded);
  room.take('two', 40);
  expect(() => room.take('three', 1)).toThrow(overloaded);
});

test('one user’s results are read up to a quarter of the room, to the byte, and others’ in addition', () => {
  const room = new ResultRoom(100);
  const giveBack = room.take('one', 20);
  room.take('one', 5);
  expect(() => room.take('one', 1)).toThrow(overloaded);
  // The only one of its user, and there is room for it.
  room.take('two', 50);
  giveBack();
  room.take('one', 20);
});
