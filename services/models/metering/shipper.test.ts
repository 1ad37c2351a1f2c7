import * as fs from 'node:fs';
import { readdirSync } from 'node:fs';
import { expect, test, vi } from 'vitest';
import {
  adopt,
  event,
  filesWith,
  ids,
  journalFolder,
  openTestJournal,
  type TestEvent,
  testLogger,
  written,
} from './fixtures/test-journal.ts';
import { createShipper } from './shipper.ts';

/** Long enough for a busy machine; what is awaited takes milliseconds. */
const until = <Value>(condition: () => Value | Promise<Value>) =>
  vi.waitFor(condition, { timeout: 30_000, interval: 5 });

const numbers = (count: number) => Array.from({ length: count }, (_, number) => number);

/** A Usage that stores by id, as the real one, and can be away. */
function usage() {
  const stored = new Map<string, TestEvent>();
  const calls: number[] = [];
  const state = { away: false };
  const record = async (events: readonly TestEvent[]) => {
    if (state.away) throw new Error('connection refused');
    calls.push(events.length);
    for (const one of events) stored.set(one.id, one);
    return [];
  };
  return { stored, calls, state, record };
}

test('events are stored in batches of a thousand at most and leave an empty journal', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const { stored, calls, record } = usage();
  const shipper = createShipper({ journal, record, logger: testLogger() });
  for (const number of numbers(2500)) journal.end(`event-${number}`, event(number));
  await until(() => expect(stored.size).toBe(2500));
  expect(calls).toEqual([1000, 1000, 500]);
  await shipper.close(1000);
  await journal.close();
  expect(readdirSync(folder.path)).toEqual([]);
});

test('while Usage is away the journal keeps everything, nothing waits for it, and it is asked less and less often', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path, { eventsInMemoryMax: 20 });
  const { stored, state, record } = usage();
  const logger = testLogger();
  const askedMs: number[] = [];
  const asked: typeof record = (events) => {
    askedMs.push(performance.now());
    return record(events);
  };
  const shipper = createShipper({ journal, record: asked, logger });
  state.away = true;
  for (const number of numbers(100)) await written(journal, event(number));
  await until(() => expect(shipper.stats().failedCalls).toBeGreaterThan(3));
  // A timer may be a millisecond early.
  for (const [failures, leastMs] of [50, 100, 200].entries()) {
    expect(askedMs[failures + 1]! - askedMs[failures]!).toBeGreaterThan(leastMs - 2);
  }
  expect(journal.stats().pendingEvents).toBe(100);
  expect(logger.lines).toHaveLength(1);
  state.away = false;
  await until(() => expect(journal.stats().pendingEvents).toBe(0));
  expect([...stored.keys()]).toEqual(numbers(100).map((number) => `event-${number}`));
  await shipper.close(1000);
  await journal.close();
});

test('a call that stored and then failed is sent again, with the same events', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const { stored, record } = usage();
  const sent: string[][] = [];
  const shipper = createShipper({
    journal,
    record: async (events) => {
      const refused = await record(events);
      sent.push(ids(events));
      if (sent.length === 1) throw new Error('connection reset after the commit');
      return refused;
    },
    logger: testLogger(),
  });
  await written(journal, event(1));
  await until(() => expect(journal.stats().pendingEvents).toBe(0));
  expect(sent).toEqual([['event-1'], ['event-1']]);
  expect(stored.size).toBe(1);
  await shipper.close(1000);
  await journal.close();
});

test('events that Usage refuses for good are counted, and logged with the reason; the others are stored', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const { stored, record } = usage();
  const logger = testLogger();
  const shipper = createShipper({
    journal,
    record: async (events) => {
      const refused = events.flatMap(({ tokens }, index) =>
        tokens === 7 || tokens === 90 ? [{ index, reason: `not ${tokens}` }] : [],
      );
      await record(events.filter((_, place) => refused.every(({ index }) => index !== place)));
      return refused;
    },
    logger,
  });
  for (const number of numbers(100)) journal.end(`event-${number}`, event(number));
  await until(() => expect(journal.stats().pendingEvents).toBe(0));
  expect(stored.size).toBe(98);
  expect(shipper.stats()).toEqual({ refusedEvents: 2, failedCalls: 0 });
  for (const number of [7, 90]) {
    const told = logger.lines.filter((line) => line.includes(`event-${number}"`));
    expect(told).toEqual([expect.stringContaining(`not ${number}`)]);
  }
  await shipper.close(1000);
  await journal.close();
});

test('what a dead process left counts as waiting until it is stored: at a restart in an outage nothing else tells of it', async () => {
  using folder = journalFolder();
  const dead = openTestJournal(folder.path);
  await written(dead, event(1));
  await dead.close();
  const journal = openTestJournal(folder.path);
  const { stored, state, record } = usage();
  state.away = true;
  const shipper = createShipper({ journal, record, logger: testLogger() });
  for (const orphan of adopt(folder.path)) shipper.adopt(orphan);
  await until(() => expect(shipper.stats().failedCalls).toBeGreaterThan(0));
  expect(journal.stats().lagMs).toBe(0);
  expect(shipper.lagMs(performance.now())).toBeGreaterThan(0);
  state.away = false;
  await until(() => expect(stored.size).toBe(1));
  await until(() => expect(shipper.lagMs(performance.now())).toBe(0));
  await shipper.close(1000);
  await journal.close();
});

test('a journal that cannot be read is reported once, however often it is adopted, and once it was read to its end', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const { stored, record } = usage();
  const logger = testLogger();
  const shipper = createShipper({ journal, record, logger });
  let isBroken = true;
  const adoptOnce = (number: number) =>
    new Promise<void>((released) => {
      let batches = [{ events: [event(number)], end: { segment: 1, offset: 0 }, sinceMs: 0 }];
      shipper.adopt({
        name: 'of the dead',
        async nextBatch() {
          const next = batches.shift();
          if (next !== undefined || batches === none) return next ?? null;
          if (!isBroken) return null;
          batches = none;
          throw new Error('EIO: i/o error, read');
        },
        acknowledge() {},
        release: released,
      });
    });
  const none: Parameters<typeof journal.acknowledge>[0][] = [];
  await adoptOnce(1);
  await adoptOnce(2);
  isBroken = false;
  await adoptOnce(3);
  expect(stored.size).toBe(3);
  expect(logger.lines.map((line) => JSON.parse(line).msg)).toEqual([
    'reading the journal of the dead failed; trying again',
    'reading the journal of the dead works again',
  ]);
  await shipper.close(1000);
  await journal.close();
});

test('close ships what is there', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const { stored, record } = usage();
  const shipper = createShipper({ journal, record, logger: testLogger() });
  for (const number of numbers(1500)) journal.end(`event-${number}`, event(number));
  await shipper.close(5000);
  expect(stored.size).toBe(1500);
  await journal.close();
  expect(readdirSync(folder.path)).toEqual([]);
});

test('a close that ships nothing says so, with the cause', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const logger = testLogger();
  const record = () => Promise.reject(new Error('connection refused'));
  const shipper = createShipper({ journal, record, logger });
  await written(journal, event(1));
  await shipper.close(20);
  await journal.close();
  expect(logger.lines.at(-1)).toMatch(/connection refused.*failed to the end/);
});

test('a close after which nothing is left does not say otherwise, though Usage was away before it refused the last event', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const logger = testLogger();
  let calls = 0;
  const record = async () => {
    if (++calls < 3) throw new Error('connection refused');
    return [{ index: 0, reason: 'not an event' }];
  };
  const shipper = createShipper({ journal, record, logger });
  await written(journal, event(1));
  await until(() => expect(shipper.stats().refusedEvents).toBe(1));
  await shipper.close(1000);
  await journal.close();
  expect(logger.lines.join()).not.toContain('failed to the end');
});

test('close gives up at its deadline, and the next process ships the rest', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const never = createShipper({ journal, record: () => new Promise<never>(() => {}), logger: testLogger() });
  await written(journal, event(1));
  await never.close(20);
  await journal.close();

  const next = openTestJournal(folder.path);
  const { stored, record } = usage();
  const shipper = createShipper({ journal: next, record, logger: testLogger() });
  for (const orphan of adopt(folder.path)) shipper.adopt(orphan);
  await until(() => expect([...stored.keys()]).toEqual(['event-1']));
  await until(() => expect(readdirSync(folder.path)).toEqual([next.name]));
  await shipper.close(1000);
  await next.close();
});

test('an answer of Usage after the deadline of close deletes nothing: by then the journal belongs to its adopter', async () => {
  using folder = journalFolder();
  const unlink = vi.fn(fs.unlink);
  const journal = openTestJournal(folder.path, { segmentBytes: 1, files: filesWith({ unlink }) });
  const asked = Promise.withResolvers<void>();
  const late = Promise.withResolvers<[]>();
  const record = () => {
    asked.resolve();
    return late.promise;
  };
  const shipper = createShipper({ journal, record, logger: testLogger() });
  await written(journal, event(1));
  await asked.promise;
  await shipper.close(20);
  await journal.close();
  const [orphan] = adopt(folder.path);
  late.resolve([]);
  await new Promise(setImmediate);
  expect(unlink).not.toHaveBeenCalled();
  orphan!.release();
});
