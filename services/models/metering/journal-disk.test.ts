import * as fs from 'node:fs';
import { existsSync, readdirSync } from 'node:fs';
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

/** Long enough for a busy machine; what is awaited takes milliseconds. */
const until = <Value>(condition: () => Value | Promise<Value>) =>
  vi.waitFor(condition, { timeout: 30_000, interval: 5 });

const diskError = (code: string) => Object.assign(new Error(`${code}: injected`), { code });

describe('a disk that refuses writes', () => {
  /** A disk with `free` bytes: like a real one, it takes what fits and then fails. */
  function fullDisk(code: string) {
    const disk = { free: Number.POSITIVE_INFINITY };
    const files = filesWith({
      writeSync(fd, bytes, offset, length, position) {
        const count = Math.min(length, disk.free);
        if (count === 0) throw diskError(code);
        disk.free -= count;
        return fs.writeSync(fd, bytes, offset, count, position);
      },
    });
    return { disk, files };
  }

  test.each(['ENOSPC', 'EIO'])(
    '%s: unhealthy at once, healthy when it passes, no frame lost or doubled',
    async (code) => {
      const roundWith = async (free: number) => {
        using folder = journalFolder();
        const { disk, files } = fullDisk(code);
        const journal = openTestJournal(folder.path, { files, logger: testLogger() });
        await written(journal, event(0));
        disk.free = free;
        // Open requests finish although the disk is full.
        await Promise.all([1, 2, 3, 4, 5].map((number) => written(journal, event(number))));
        expect(journal.healthy).toBe(false);
        disk.free = Number.POSITIVE_INFINITY;
        journal.end('event-6', event(6));
        await until(() => expect(journal.healthy).toBe(true));
        await journal.close();
        const [orphan] = adopt(folder.path);
        expect(await drainToTheEnd(orphan!)).toEqual([0, 1, 2, 3, 4, 5, 6].map(event));
      };
      // Every place in which a write of some frames can stop.
      await Promise.all(Array.from({ length: 200 }, (_, free) => roundWith(free)));
    },
  );

  test('events still reach Usage from memory, and the folder is deleted once the disk is back', async () => {
    using folder = journalFolder();
    const { disk, files } = fullDisk('ENOSPC');
    const journal = openTestJournal(folder.path, { files });
    disk.free = 0;
    await written(journal, event(1));
    expect(journal.healthy).toBe(false);
    expect(await drain(journal)).toEqual([event(1)]);
    disk.free = Number.POSITIVE_INFINITY;
    await until(() => expect(journal.healthy).toBe(true));
    await journal.close();
    expect(readdirSync(folder.path)).toEqual([]);
  });

  test('an end before the disk is back says that events are lost, unless Usage has them', async () => {
    const endOf = async (isStored: boolean) => {
      using folder = journalFolder();
      const { disk, files } = fullDisk('ENOSPC');
      const logger = testLogger();
      const journal = openTestJournal(folder.path, { files, logger });
      await written(journal, event(1));
      disk.free = 10;
      await written(journal, event(2));
      if (isStored) await drain(journal);
      await journal.close();
      return logger.lines.filter((line) => line.includes('lost'));
    };
    expect(await endOf(true)).toEqual([]);
    expect(await endOf(false)).toEqual([expect.stringContaining('are lost and not charged')]);
  });

  test('events beyond what memory holds wait for the disk', async () => {
    using folder = journalFolder();
    const { disk, files } = fullDisk('ENOSPC');
    const journal = openTestJournal(folder.path, { files, eventsInMemoryMax: 1, segmentBytes: 1 });
    await written(journal, event(1));
    disk.free = 0;
    await written(journal, event(2));
    await written(journal, event(3));
    expect(await drain(journal)).toEqual([event(1)]);
    disk.free = Number.POSITIVE_INFINITY;
    await until(() => expect(journal.healthy).toBe(true));
    expect(await drain(journal)).toEqual([event(2), event(3)]);
    await journal.close();
  });

  /** A disk with room for this many bytes. Deleting and closing a file returns its room. */
  function smallDisk(folder: string, bytes: number) {
    const opened = new Set<number>();
    const filesBytes = () =>
      readdirSync(folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .reduce((sum, { parentPath, name }) => sum + fs.statSync(join(parentPath, name)).size, 0);
    const deletedBytes = () =>
      [...opened].map((fd) => fs.fstatSync(fd)).reduce((sum, { nlink, size }) => sum + (nlink === 0 ? size : 0), 0);
    return filesWith({
      openSync(path, flags) {
        const fd = fs.openSync(path, flags);
        if (flags === 'w') opened.add(fd);
        return fd;
      },
      writeSync(fd, data, offset, length, position) {
        const free = bytes - filesBytes() - deletedBytes() + fs.fstatSync(fd).size - position;
        const count = Math.min(length, free);
        if (count <= 0) throw diskError('ENOSPC');
        return fs.writeSync(fd, data, offset, count, position);
      },
      close(fd, done) {
        opened.delete(fd);
        fs.close(fd, done);
      },
    });
  }

  test.each([
    ['from memory', 1_000],
    ['from the files', 1],
  ])(
    'a disk that the journal itself has filled has space again once all events are stored, %s, and none is lost',
    async (_from, eventsInMemoryMax) => {
      using folder = journalFolder();
      const journal = openTestJournal(folder.path, { files: smallDisk(folder.path, 3_000), eventsInMemoryMax });
      const stored: string[] = [];
      let next = 0;
      for (let round = 0; round < 3; round += 1) {
        const open = `event-${next++}`;
        journal.begin(open, { id: open, tokens: 0 });
        // Part of a write may still have room.
        while (journal.healthy) await Promise.all(Array.from({ length: 7 }, () => written(journal, event(next++))));
        await written(journal, event(next++));
        journal.end(open, { id: open, tokens: 1 });
        await until(async () => {
          stored.push(...ids(await drain(journal)));
          expect(journal.healthy).toBe(true);
          expect(new Set(stored).size).toBe(next);
        });
      }
      expect(stored).toHaveLength(next);
      await journal.close();
      expect(readdirSync(folder.path)).toEqual([]);
    },
  );

  test('the files of events that were read back, and are about to be handed out, are kept until Usage has stored them', async () => {
    using folder = journalFolder();
    const { disk, files } = fullDisk('ENOSPC');
    const codec = {
      ...testCodec,
      decode(json: unknown) {
        // A job is dropped right after the reading, before anyone has its events.
        queueMicrotask(() => journal.drop('open'));
        return testCodec.decode(json);
      },
    };
    const journal = openTestJournal(folder.path, { files, codec, eventsInMemoryMax: 1 });
    await written(journal, event(1));
    await written(journal, event(2));
    journal.begin('open', event(3));
    disk.free = 0;
    await until(() => expect(journal.healthy).toBe(false));
    const { signal } = new AbortController();
    journal.acknowledge((await journal.nextBatch(signal))!);
    expect((await journal.nextBatch(signal))!.events).toEqual([event(2)]);
    expect(journal.stats().segments).toBe(1);
    disk.free = Number.POSITIVE_INFINITY;
    await journal.close();
    const [orphan] = adopt(folder.path);
    expect(await drainToTheEnd(orphan!)).toContainEqual(event(2));
  });

  test('a new segment that cannot be created has the same effect', async () => {
    using folder = journalFolder();
    let full = false;
    const files = filesWith({
      openSync: (path, flags) => {
        if (full) throw diskError('ENOSPC');
        return fs.openSync(path, flags);
      },
    });
    const journal = openTestJournal(folder.path, { files, segmentBytes: 1, eventsInMemoryMax: 1 });
    await written(journal, event(1));
    full = true;
    await written(journal, event(2));
    expect(journal.healthy).toBe(false);
    // The second is neither in memory nor in a readable file.
    expect(await drain(journal)).toEqual([event(1)]);
    full = false;
    await until(() => expect(journal.healthy).toBe(true));
    await journal.close();
    const [orphan] = adopt(folder.path);
    expect(await drainToTheEnd(orphan!)).toEqual([event(1), event(2)]);
  });

  test('progress is not kept in memory meanwhile', async () => {
    using folder = journalFolder();
    const { disk, files } = fullDisk('ENOSPC');
    const journal = openTestJournal(folder.path, { files });
    journal.begin('event-1', event(1));
    await written(journal, event(2));
    disk.free = 0;
    await written(journal, event(3));
    const { bytes } = journal.stats();
    for (let tokens = 0; tokens < 1000; tokens += 1) journal.progress('event-1', { tokens });
    await new Promise<void>((resolve) => journal.progress('event-1', { tokens: 1 }, resolve));
    expect(journal.stats().bytes).toBe(bytes);
    await journal.close();
  });
});

describe('sync', () => {
  test('always: nothing counts as written before the disk confirms it', async () => {
    using folder = journalFolder();
    const confirm: (() => void)[] = [];
    const files = filesWith({ fdatasync: (fd, done) => void confirm.push(() => fs.fdatasync(fd, done)) });
    const journal = openTestJournal(folder.path, { sync: 'always', files });
    let reported = 0;
    journal.end('event-1', event(1), () => (reported += 1));
    await until(() => expect(confirm).toHaveLength(1));
    // Written while the first sync runs, so that the first cannot vouch for it.
    journal.end('event-2', event(2), () => (reported += 1));
    await new Promise((resolve) => setImmediate(resolve));
    expect(reported).toBe(0);
    confirm[0]!();
    await until(() => expect(confirm).toHaveLength(2));
    expect(reported).toBe(1);
    confirm[1]!();
    await until(() => expect(reported).toBe(2));
    await drain(journal);
    await journal.close();
  });

  test('group: many writes share a sync, and the name of a new file is synced too', async () => {
    using folder = journalFolder();
    const fdatasync = vi.fn(fs.fdatasync);
    const fsync = vi.fn(fs.fsync);
    const journal = openTestJournal(folder.path, { files: filesWith({ fdatasync, fsync }) });
    for (let number = 0; number < 20; number += 1) await written(journal, event(number));
    await journal.close();
    expect(fdatasync.mock.calls.length).toBeGreaterThanOrEqual(1);
    expect(fdatasync.mock.calls.length).toBeLessThan(20);
    expect(fsync).toHaveBeenCalledTimes(1);
  });

  test('a sync that was due when another failed is not made', async () => {
    using folder = journalFolder();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const syncs: ((error: Error) => void)[] = [];
    const onFatal = vi.fn();
    const files = filesWith({ fdatasync: (_fd, done) => void syncs.push(done) });
    const journal = openTestJournal(folder.path, { files, onFatal });
    try {
      await written(journal, event(1));
      vi.advanceTimersByTime(10);
      await written(journal, event(2));
      syncs[0]!(diskError('EIO'));
      await new Promise((resolve) => setImmediate(resolve));
      vi.advanceTimersByTime(1000);
      expect(syncs).toHaveLength(1);
      expect(onFatal).toHaveBeenCalledTimes(1);
    } finally {
      vi.useRealTimers();
    }
    await journal.close();
  });

  test('a failed sync is fatal, is never repeated, and confirms nothing', async () => {
    using folder = journalFolder();
    const fdatasync = vi.fn((_fd: number, done: (error: Error | null) => void) => setImmediate(done, diskError('EIO')));
    const onFatal = vi.fn();
    const onWritten = vi.fn();
    const files = filesWith({ fdatasync });
    const journal = openTestJournal(folder.path, { sync: 'always', files, onFatal });
    journal.end('event-1', event(1), onWritten);
    await until(() => expect(onFatal).toHaveBeenCalledTimes(1));
    journal.end('event-2', event(2), onWritten);
    await new Promise((resolve) => setImmediate(resolve));
    expect(journal.healthy).toBe(false);
    await journal.close();
    expect(fdatasync).toHaveBeenCalledTimes(1);
    expect(onFatal).toHaveBeenCalledTimes(1);
    expect(onWritten).not.toHaveBeenCalled();
    expect(existsSync(join(folder.path, journal.name))).toBe(true);
  });
});
