import { expect, test } from 'vitest';
import { closeAll, closeTogether } from './close-all.ts';

test('what closes together does not wait for one another, and all are waited for even if one fails', async () => {
  const closed: string[] = [];
  const edge = Promise.withResolvers<void>();
  const closing = closeTogether([
    () => edge.promise.then(() => void closed.push('edge')),
    () => {
      throw new Error('the journal');
    },
    () => {
      closed.push('worker');
      edge.resolve();
    },
  ]);
  await expect(closing).rejects.toThrow('the journal');
  expect(closed).toEqual(['worker', 'edge']);
});

test('something that fails to close keeps nothing else open, and is reported once all is closed', async () => {
  const closed: string[] = [];
  const closing = closeAll([
    () => void closed.push('database'),
    () => Promise.reject(new Error('the journal')),
    () => void closed.push('worker'),
    () => {
      throw new Error('the edge');
    },
  ]);
  await expect(closing).rejects.toMatchObject({ errors: [{ message: 'the edge' }, { message: 'the journal' }] });
  expect(closed).toEqual(['worker', 'database']);
  await expect(closeAll([() => Promise.reject(new Error('alone'))])).rejects.toThrow('alone');
});
