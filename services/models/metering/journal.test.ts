import * as fs from 'node:fs';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import {
  adopt,
  drain,
  drainToTheEnd,
  event,
  filesWith,
  ids,
  journalFolder,
  openTestJournal,
  testCodec,
  testLogger,
  written,
} from './fixtures/test-journal.ts';
import { listSegments } from './segment-files.ts';
import type { JournalFiles } from './segment-log.ts';

/** Long enough for a busy machine; what is awaited takes milliseconds. */
const until = <Value>(condition: () => Value | Promise<Value>) =>
  vi.waitFor(condition, { timeout: 30_000, interval: 5 });

test('events come out in the order they ended', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  for (let number = 0; number < 2500; number += 1) journal.end(`event-${number}`, event(number));
  expect(ids(await drain(journal))).toEqual(Array.from({ length: 2500 }, (_, number) => `event-${number}`));
  await journal.close();
});

test('all records of one loop turn are written at once, before the next turn', async () => {
  using folder = journalFolder();
  const writeSync = vi.fn<JournalFiles['writeSync']>(fs.writeSync);
  const journal = openTestJournal(folder.path, {
    files: filesWith({ writeSync }),
  });
  const order: string[] = [];
  using now = vi.spyOn(performance, 'now').mockReturnValue(1_000);
  for (let number = 0; number < 100; number += 1) {
    journal.begin(`event-${number}`, event(number));
    journal.end(`event-${number}`, event(number), () => order.push(`event-${number}`));
  }
  now.mockRestore();
  expect(order).toEqual([]);
  await new Promise((resolve) => setImmediate(resolve));
  expect(order).toHaveLength(100);
  expect(writeSync).toHaveBeenCalledTimes(1);
  await drain(journal);
  await journal.close();
});

test('a long loop turn is not waited for', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  const order: string[] = [];
  using now = vi.spyOn(performance, 'now').mockReturnValue(1_000);
  for (let number = 0; number < 3; number += 1) {
    journal.begin(`event-${number}`, event(number));
    journal.end(`event-${number}`, event(number), () => order.push(`event-${number}`));
    now.mockReturnValue(1_000 + (number + 1) * 25);
  }
  now.mockRestore();
  expect(order).toEqual(['event-0', 'event-1']);
  await drain(journal);
  await journal.close();
});

test('a journal with nothing left leaves no folder behind', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  journal.begin('event-1', event(1));
  await written(journal, event(1));
  await drain(journal);
  await journal.close();
  expect(readdirSync(folder.path)).toEqual([]);
});

test('what is not acknowledged, and what is still open, is there for the next process', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  journal.begin('event-1', event(1));
  journal.progress('event-1', { tokens: 4 });
  await written(journal, event(2));
  await journal.close();
  const [orphan] = adopt(folder.path);
  expect(await drainToTheEnd(orphan!)).toEqual([event(2), { id: 'event-1', tokens: 4, interrupted: true }]);
  expect(readdirSync(folder.path)).toEqual([]);
});

test('acknowledged segments are deleted, others are not', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path, { segmentBytes: 1000 });
  for (let number = 0; number < 100; number += 1) await written(journal, event(number));
  const before = listSegments(join(folder.path, journal.name));
  expect(before.length).toBeGreaterThan(4);
  const batch = await journal.nextBatch(AbortSignal.abort());
  expect(listSegments(join(folder.path, journal.name))).toEqual(before);
  journal.acknowledge(batch!);
  await until(() => expect(listSegments(join(folder.path, journal.name)).length).toBeLessThanOrEqual(1));
  expect(journal.stats()).toMatchObject({ pendingEvents: 0, lagMs: 0 });
  await journal.close();
});

test('the begin record of a long request outlives the segment it was written to', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path, { segmentBytes: 500 });
  journal.begin('long', { id: 'long', tokens: 0 });
  journal.progress('long', { tokens: 12 });
  for (let number = 0; number < 200; number += 1) {
    await written(journal, event(number));
    if (number % 10 === 0) await drain(journal);
  }
  await until(async () => {
    await written(journal, event(0));
    await drain(journal);
    expect(listSegments(join(folder.path, journal.name))[0]).toBeGreaterThan(1);
    expect(journal.stats().segments).toBeLessThan(10);
  });
  await journal.close();
  const [orphan] = adopt(folder.path);
  expect(await drainToTheEnd(orphan!)).toContainEqual({ id: 'long', tokens: 12, interrupted: true });
});

test("the copy of a long request's begin record is on disk before the segment with the original is deleted", async () => {
  using folder = journalFolder();
  const unsynced: ((error: null) => void)[] = [];
  let isSlow = true;
  const fdatasync = ((_fd, done) => {
    if (isSlow) unsynced.push(done);
    else setImmediate(done, null);
  }) as JournalFiles['fdatasync'];
  const journal = openTestJournal(folder.path, { segmentBytes: 500, files: filesWith({ fdatasync }) });
  const firstSegment = () => listSegments(join(folder.path, journal.name))[0];
  journal.begin('long', { id: 'long', tokens: 0 });
  for (let number = 0; number < 100; number += 1) {
    await written(journal, event(number));
    await drain(journal);
  }
  expect(firstSegment()).toBe(1);
  isSlow = false;
  for (const done of unsynced) done(null);
  await until(() => expect(firstSegment()).toBeGreaterThan(1));
  await journal.close();
});

test('copies of begin records that fill a segment are kept with it', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path, { segmentBytes: 1 });
  const long = [event(-1), event(-2)];
  for (const request of long) journal.begin(request.id, request);
  for (let number = 0; number < 10; number += 1) await written(journal, event(number));
  const batch = await journal.nextBatch(AbortSignal.abort());
  // As in a turn that copies thousands, what has been copied is written before the rest.
  let nowMs = 1_000;
  using now = vi.spyOn(performance, 'now').mockImplementation(() => (nowMs += 25));
  journal.acknowledge(batch!);
  now.mockRestore();
  await until(() => expect(listSegments(join(folder.path, journal.name))[0]).toBeGreaterThan(10));
  await written(journal, event(10));
  await drain(journal);
  await journal.close();
  const [orphan] = adopt(folder.path);
  const interrupted = (await drainToTheEnd(orphan!)).filter((one) => one.interrupted);
  expect(ids(interrupted)).toEqual(ids(long));
});

test('a journal is released only when no segment is being deleted, so that its adopter finds what it lists', async () => {
  using folder = journalFolder();
  const order: string[] = [];
  const unlink: JournalFiles['unlink'] = (path, done) =>
    void setTimeout(() => {
      order.push('deleted');
      fs.unlink(path, done);
    }, 30);
  const journal = openTestJournal(folder.path, { segmentBytes: 500, files: filesWith({ unlink }) });
  for (let number = 0; number < 20; number += 1) await written(journal, event(number));
  journal.begin('open', event(20));
  await drain(journal);
  await journal.close();
  order.push('given up');
  expect(order.filter((step) => step === 'deleted').length).toBeGreaterThan(1);
  expect(order.at(-1)).toBe('given up');
  const [orphan] = adopt(folder.path);
  expect(await drainToTheEnd(orphan!)).toContainEqual({ id: 'event-20', tokens: 0, interrupted: true });
});

describe('an outage of Usage', () => {
  test('memory holds no more than its bound, and every event arrives once and in order', async () => {
    using folder = journalFolder();
    const journal = openTestJournal(folder.path, { eventsInMemoryMax: 1000, segmentBytes: 20_000 });
    const decode = vi.spyOn(testCodec, 'decode');
    const total = 5000;
    const outcome: string[] = [];
    for (let number = 0; number < total; number += 1) {
      journal.begin(`event-${number}`, event(number));
      journal.end(`event-${number}`, event(number));
      if (number % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    outcome.push(...ids(await drain(journal)));
    expect(outcome).toEqual(Array.from({ length: total }, (_, number) => `event-${number}`));
    expect(decode).toHaveBeenCalledTimes(total - 1000);
    // Caught up: the next event comes from memory again.
    await written(journal, event(total));
    expect(await drain(journal)).toEqual([event(total)]);
    expect(decode).toHaveBeenCalledTimes(total - 1000);
    expect(journal.stats()).toMatchObject({ pendingEvents: 0, segments: 1 });
    decode.mockRestore();
    await journal.close();
  });

  test('events that end while the backlog is read are neither lost nor duplicated', async () => {
    using folder = journalFolder();
    const journal = openTestJournal(folder.path, { eventsInMemoryMax: 10, segmentBytes: 5000 });
    const closing = new AbortController();
    const seen: string[] = [];
    const total = 3000;
    let next = 0;
    const produce = () => {
      for (let count = 0; count < 7 && next < total; count += 1, next += 1) journal.end(`event-${next}`, event(next));
      if (next < total) setImmediate(produce);
    };
    produce();
    while (seen.length < total) {
      const batch = await journal.nextBatch(closing.signal);
      seen.push(...ids(batch!.events));
      journal.acknowledge(batch!);
    }
    expect(seen).toEqual(Array.from({ length: total }, (_, number) => `event-${number}`));
    await journal.close();
    expect(readdirSync(folder.path)).toEqual([]);
  });

  test('a file that cannot be read for a while costs none of the events that were read before it', async () => {
    using folder = journalFolder();
    const journal = openTestJournal(folder.path, { eventsInMemoryMax: 1, segmentBytes: 500 });
    for (let number = 0; number < 50; number += 1) await written(journal, event(number));
    const third = join(folder.path, journal.name, 'segment-3');
    fs.renameSync(third, `${third}-away`);
    fs.mkdirSync(third);
    const seen: string[] = [];
    const readAll = async () => {
      for (let batch = await next(); batch !== null; batch = await next()) {
        seen.push(...ids(batch.events));
        journal.acknowledge(batch);
      }
    };
    const next = () => journal.nextBatch(AbortSignal.abort());
    await expect(readAll()).rejects.toThrow('EISDIR');
    fs.rmdirSync(third);
    fs.renameSync(`${third}-away`, third);
    await readAll();
    expect(seen).toEqual(Array.from({ length: 50 }, (_, number) => `event-${number}`));
    expect(journal.stats().pendingEvents).toBe(0);
    await journal.close();
  });

  test('a file that somebody has deleted, to make room on the disk, costs only the events in it', async () => {
    using folder = journalFolder();
    const logger = testLogger();
    const journal = openTestJournal(folder.path, { eventsInMemoryMax: 1, segmentBytes: 500, logger });
    for (let number = 0; number < 50; number += 1) await written(journal, event(number));
    fs.unlinkSync(join(folder.path, journal.name, 'segment-3'));
    const seen = ids(await drain(journal));
    expect(seen.length).toBeGreaterThan(40);
    expect(seen).toContain('event-49');
    expect(logger.lines.filter((line) => line.includes('"segment":3'))).toHaveLength(1);
    expect(journal.stats()).toMatchObject({ pendingEvents: 0, lagMs: 0 });
    await journal.close();
    expect(readdirSync(folder.path)).toEqual([]);
  });

  test('the lag is the age of the oldest event that is not stored', async () => {
    using folder = journalFolder();
    const clock = { now: () => 0, monotonic: vi.fn(() => 1000) };
    const journal = openTestJournal(folder.path, { clock, eventsInMemoryMax: 1 });
    journal.end('event-1', event(1));
    clock.monotonic.mockReturnValue(1700);
    journal.end('event-2', event(2));
    expect(journal.stats()).toMatchObject({ lagMs: 700, pendingEvents: 2 });
    await new Promise((resolve) => setImmediate(resolve));
    await drain(journal);
    expect(journal.stats()).toMatchObject({ lagMs: 0, pendingEvents: 0 });
    await journal.close();
  });
});
