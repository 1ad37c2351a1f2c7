import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { ErrorReason } from '../errors.ts';
import { uuidv7 } from '../ids.ts';
import { CallerSchema, callerContext } from './caller.ts';
import { createReadTurns } from './read-turns.ts';

test('of one organization’s files a page is read at a time, beside a report, and no file that has begun is refused its next page', async () => {
  const reads = createReadTurns();
  const caller = create(CallerSchema, { tenantId: uuidv7() });
  const context = { values: callerContext(caller), signal: new AbortController().signal } as never;
  const begun: { end(): void }[] = [];
  const read = () => new Promise<void>((end) => begun.push({ end }));
  const firsts = Promise.allSettled(Array.from({ length: 60 }, () => reads(context, read, 'first')));
  const nexts = Promise.all(Array.from({ length: 60 }, () => reads(context, read, 'next')));
  const report = reads(context, read);
  await new Promise(setImmediate);
  expect(begun).toHaveLength(2);
  for (let ended = 0; ended < 51 + 60 + 1; ended += 1) {
    begun[ended]!.end();
    await new Promise(setImmediate);
    expect(begun.length - ended).toBeLessThanOrEqual(2);
  }
  await report;
  await nexts;
  const refused = (await firsts).filter(({ status }) => status === 'rejected');
  expect(refused).toHaveLength(9);
  expect(refused[0]).toMatchObject({ reason: { reason: ErrorReason.RATE_LIMITED } });
});
