import { expect, test } from 'vitest';
import { closeAll } from './close-all.ts';

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
