import { expect, test } from 'vitest';
import { logCollector } from '../../../test/support/rpc-carriers.ts';
import { silentLogger as logger } from '../../../test/support/silent-logger.ts';
import type { CachedKey } from './key-cache.ts';
import { KeyUses } from './key-uses.ts';

const usedKey = (keyId: string) =>
  ({ principal: { tenantId: 'a tenant', keyId }, uses: 0, lastUsedMs: 0 }) as unknown as CachedKey;

type Report = { batchId: string; counts: bigint[] };

/** A Keys that answers reports only when the test lets it. */
function slowKeys() {
  const reports: Report[] = [];
  const answers: { give(): void; refuse(): void }[] = [];
  const recordKeyUse = ({ batchId, uses }: { batchId: string; uses: { count: bigint }[] }) => {
    reports.push({ batchId, counts: uses.map(({ count }) => count) });
    return new Promise((resolve, reject) => {
      answers.push({ give: () => resolve({}), refuse: () => reject(new Error('out of reach')) });
    });
  };
  return { keys: { recordKeyUse } as unknown as ConstructorParameters<typeof KeyUses>[0], reports, answers };
}

test('a key that is used continuously is included once in each report', async () => {
  const { keys, reports, answers } = slowKeys();
  const uses = new KeyUses(keys, logger);
  const key = usedKey('a key');
  uses.count(key, 1);
  uses.count(key, 2);

  const first = uses.report();
  uses.count(key, 3);
  answers[0]!.give();
  await first;
  expect(reports.map(({ counts }) => counts)).toEqual([[2n]]);

  const second = uses.report();
  answers[1]!.give();
  await second;
  expect(reports.map(({ counts }) => counts)).toEqual([[2n], [1n]]);
});

test('the last uses are reported even while a report is on its way', async () => {
  const { keys, reports, answers } = slowKeys();
  const uses = new KeyUses(keys, logger);
  const key = usedKey('a key');
  uses.count(key, 1);
  const first = uses.report();
  uses.count(key, 2);

  const closed = uses.close();
  answers[0]!.give();
  await first;
  await expect.poll(() => answers.length).toBe(2);
  answers[1]!.give();
  await closed;
  expect(reports.map(({ counts }) => counts)).toEqual([[1n], [1n]]);
});

test('a report that did not arrive is sent again unchanged, and what was counted since goes into another', async () => {
  const { keys, reports, answers } = slowKeys();
  const uses = new KeyUses(keys, logger);
  const key = usedKey('a key');
  uses.count(key, 1);
  const first = uses.report();
  answers[0]!.refuse();
  await first;
  uses.count(key, 2);

  const second = uses.report();
  answers[1]!.give();
  await expect.poll(() => answers.length).toBe(3);
  answers[2]!.give();
  await second;
  expect(reports[1]).toEqual(reports[0]);
  expect(reports[2]!.counts).toEqual([1n]);
});

test('last uses that do not arrive are logged', async () => {
  const { keys, answers } = slowKeys();
  const { logger: collector, lines } = logCollector('warn');
  const uses = new KeyUses(keys, collector);
  uses.count(usedKey('a key'), 1);
  const closed = uses.close();
  await expect.poll(() => answers.length).toBe(1);
  answers[0]!.refuse();
  await closed;
  expect(lines).toMatchObject([{ msg: expect.stringContaining('not recorded'), err: { message: 'out of reach' } }]);
});

test('while nothing is recorded, entries made for one request each are not kept: their uses are one sum for each key', async () => {
  const { keys, reports, answers } = slowKeys();
  const uses = new KeyUses(keys, logger);
  uses.count(usedKey('a key'), 0);
  const refused = uses.report();
  for (let count = 1; count <= 10_001; count += 1) uses.count(usedKey('a key'), count);
  uses.report();
  answers[0]!.refuse();
  await refused;

  const reported = uses.report();
  for (const at of [1, 2]) {
    await expect.poll(() => answers.length).toBeGreaterThan(at);
    answers[at]!.give();
  }
  await reported;
  expect(reports.map(({ counts }) => counts)).toEqual([[1n], [1n], [10_001n]]);
});
