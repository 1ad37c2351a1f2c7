import { expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { Outbox } from './outbox.ts';

const mebibyte = 'x'.repeat(1024 ** 2);

test('a client that reads gets any amount, and one that does not is dropped once 4 MiB wait for it', async () => {
  const outbox = new Outbox();
  const events = outbox[Symbol.asyncIterator]();
  for (let event = 0; event < 10; event++) {
    outbox.pass(mebibyte);
    expect(await events.next()).toMatchObject({ value: { message: { value: mebibyte } } });
  }
  for (let event = 0; event < 5; event++) outbox.pass(mebibyte);
  await expect(events.next()).rejects.toMatchObject({ reason: ErrorReason.CANCELLED });
});

test('a client that does not read is dropped once 10,000 events wait for it, however short', async () => {
  const outbox = new Outbox();
  for (let event = 0; event < 10_000; event++) outbox.pass('{}');
  const events = outbox[Symbol.asyncIterator]();
  expect(await events.next()).toMatchObject({ value: { message: { value: '{}' } } });
  for (let event = 0; event < 2; event++) outbox.pass('{}');
  await expect(events.next()).rejects.toMatchObject({ reason: ErrorReason.CANCELLED });
});
