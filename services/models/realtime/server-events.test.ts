import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { ServerEvents } from './server-events.ts';

const mebibyte = 'x'.repeat(1024 ** 2);

test('a client that reads gets any amount, and one that does not is dropped once 4 MiB wait for it', async () => {
  const events = new ServerEvents();
  const read = events[Symbol.asyncIterator]();
  for (let event = 0; event < 10; event++) {
    events.pass(mebibyte);
    expect(await read.next()).toMatchObject({ value: { message: { value: mebibyte } } });
  }
  for (let event = 0; event < 5; event++) events.pass(mebibyte);
  await expect(read.next()).rejects.toMatchObject({ reason: ErrorReason.CANCELLED });
});

test('a client that does not read is dropped once 10,000 events wait for it, however short', async () => {
  const events = new ServerEvents();
  for (let event = 0; event < 10_000; event++) events.pass('{}');
  const read = events[Symbol.asyncIterator]();
  expect(await read.next()).toMatchObject({ value: { message: { value: '{}' } } });
  for (let event = 0; event < 2; event++) events.pass('{}');
  await expect(read.next()).rejects.toMatchObject({ reason: ErrorReason.CANCELLED });
});
