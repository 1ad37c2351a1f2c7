import { expect, test } from 'vitest';
import { ClientEvents } from './client-events.ts';

/** The events of a client, and how often there was room again. */
function countingRooms() {
  const events = new ClientEvents({});
  let rooms = 0;
  events.onRoom = () => {
    rooms += 1;
  };
  return { events, rooms: () => rooms };
}

test('a socket is not read while more than 1 MiB of its events waits, and again once that much does not', async () => {
  const { events, rooms } = countingRooms();
  const half = 'x'.repeat(512 * 1024);
  expect([half, half, half, 'x'].map((event) => events.push(event))).toEqual([true, true, false, false]);
  const reader = events[Symbol.asyncIterator]();
  await reader.next();
  await reader.next();
  // 1 MiB and a character.
  expect(rooms()).toBe(0);
  await reader.next();
  expect(rooms()).toBe(1);
  await reader.next();
  expect(rooms()).toBe(1);
});

test('nor while more than 1,000 of its events wait, however short they are', async () => {
  const { events, rooms } = countingRooms();
  const taken = Array.from({ length: 1_002 }, () => events.push(''));
  expect(taken.indexOf(false)).toBe(1_000);
  const reader = events[Symbol.asyncIterator]();
  await reader.next();
  await reader.next();
  expect(rooms()).toBe(0);
  await reader.next();
  expect(rooms()).toBe(1);
  expect([events.push(''), events.push('')]).toEqual([false, false]);
});
