import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, test } from 'vitest';
import { systemClock } from '#shared/clock.ts';
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
  testFailures,
  testLogger,
  written,
} from './fixtures/test-journal.ts';
import { parseFrames } from './frame.ts';
import { adoptOrphans, damagedSegments, takeBackDamaged } from './orphans.ts';
import { isEnd } from './record.ts';
import { listSegments, segmentPath } from './segment-files.ts';

/** Runs one of the fixtures as its own process, killed with the scope. */
function run(fixture: string, ...args: string[]): { child: ChildProcess } & Disposable {
  const path = join(import.meta.dirname, 'fixtures', fixture);
  const child = spawn(process.execPath, [path, ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
  return { child, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

/** A journal on disk that its process closed with `events` in it, unacknowledged. */
async function leftBehind(directory: string, events: number): Promise<string> {
  const journal = openTestJournal(directory);
  for (let number = 0; number < events; number += 1) await written(journal, event(number));
  await journal.close();
  return join(directory, journal.name);
}

test('the journal of a living process is not adopted', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path);
  await written(journal, event(1));
  expect(adopt(folder.path)).toEqual([]);
  await drain(journal);
  await journal.close();
});

test.each(['group', 'always'] as const)(
  'sync %s: a killed process loses nothing it reported as written',
  async (sync) => {
    using folder = journalFolder();
    using process = run('append-forever.ts', folder.path, sync);
    const reported: string[] = [];
    const lines = createInterface({ input: process.child.stdout! });
    lines.on('line', (line) => {
      reported.push(line);
      if (reported.length === 500) process.child.kill('SIGKILL');
    });
    await Promise.all([once(process.child, 'exit'), once(lines, 'close')]);

    const adopted = adopt(folder.path);
    expect(adopted).toHaveLength(1);
    const events = await drainToTheEnd(adopted[0]!);
    const ended = events.filter(({ interrupted }) => interrupted !== true);
    const found = new Set(ids(events));
    expect(reported.filter((id) => !found.has(id))).toEqual([]);
    expect(found.size).toBe(events.length);
    // In order, each with the tokens it ended with; interrupted requests come last, with what was counted.
    expect(ended.map(({ tokens }) => tokens)).toEqual(ended.map(({ tokens }) => tokens).toSorted((a, b) => a - b));
    const cut = events.filter(({ id }) => id.endsWith('0'));
    expect(cut.length).toBeGreaterThan(40);
    for (const { id, tokens, interrupted } of cut.slice(0, -1)) {
      expect({ tokens, interrupted }).toEqual({ tokens: Number(id.slice(6)) / 2, interrupted: true });
    }
    expect(readdirSync(folder.path)).toEqual([]);
  },
);

test('of several processes that adopt at once, exactly one gets each journal', async () => {
  using folder = journalFolder();
  for (let journals = 0; journals < 5; journals += 1) await leftBehind(folder.path, 20);
  using first = run('adopt.ts', folder.path);
  using second = run('adopt.ts', folder.path);
  using third = run('adopt.ts', folder.path);
  const found = [first, second, third].map(async ({ child }) => {
    const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    await lines.next();
    return { child, lines };
  });
  const ready = await Promise.all(found);
  for (const { child } of ready) child.stdin!.write('go');
  const results = await Promise.all(
    ready.map(async ({ lines }) => JSON.parse((await lines.next()).value ?? '[]') as string[]),
  );
  expect(results.flat()).toHaveLength(100);
  expect(readdirSync(folder.path)).toEqual([]);
});

test('an adopter that gives up leaves everything for the next', async () => {
  using folder = journalFolder();
  await leftBehind(folder.path, 2500);
  const [first] = adopt(folder.path);
  await first!.nextBatch(new AbortController().signal);
  expect(adopt(folder.path)).toEqual([]);
  first!.release();
  const [second] = adopt(folder.path);
  expect(await drainToTheEnd(second!)).toHaveLength(2500);
});

test('an adopter that is told to close deletes nothing it has not shipped', async () => {
  using folder = journalFolder();
  await leftBehind(folder.path, 3);
  const [closing] = adopt(folder.path);
  expect(await closing!.nextBatch(AbortSignal.abort())).toBeNull();
  closing!.release();
  expect(await drainToTheEnd(adopt(folder.path)[0]!)).toEqual([0, 1, 2].map(event));
});

test('a deletion interrupted by a kill is finished, not replayed', async () => {
  using folder = journalFolder();
  const left = await leftBehind(folder.path, 3);
  renameSync(left, join(folder.path, `removed-${basename(left)}`));
  expect(adopt(folder.path)).toEqual([]);
  expect(readdirSync(folder.path)).toEqual([]);
});

test('a tail torn at any offset returns the checksummed prefix', async () => {
  using folder = journalFolder();
  const left = await leftBehind(folder.path, 4);
  const bytes = readFileSync(segmentPath(left, 1));
  const { ends } = parseFrames(bytes);
  rmSync(left, { recursive: true });
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    mkdirSync(left);
    writeFileSync(segmentPath(left, 1), bytes.subarray(0, cut));
    const [orphan] = adopt(folder.path);
    const whole = ends.filter((end) => end <= cut).length;
    expect(await drainToTheEnd(orphan!)).toEqual([0, 1, 2, 3].slice(0, whole).map(event));
  }
  expect(readdirSync(folder.path)).toEqual([]);
});

test('a tail torn at any offset keeps what was counted of a long request whose records were being copied', async () => {
  using folder = journalFolder();
  // No copy is known to be on the disk, so that the originals are still there.
  const files = filesWith({ fdatasync: () => {} });
  const journal = openTestJournal(folder.path, { segmentBytes: 500, files });
  journal.begin('long', { id: 'long', tokens: 0 });
  journal.progress('long', { tokens: 12 });
  for (let number = 0; number < 60; number += 1) {
    await written(journal, event(number));
    await drain(journal);
  }
  const left = join(folder.path, journal.name);
  const begins = listSegments(left).filter((segment) =>
    parseFrames(readFileSync(segmentPath(left, segment))).payloads.some((text) => text.startsWith('{"t":"b"')),
  );
  const [original, copy] = begins;
  expect([original, begins.length]).toEqual([1, 2]);
  const bytes = readFileSync(segmentPath(left, copy!));
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    using elsewhere = journalFolder();
    const torn = join(elsewhere.path, 'torn');
    mkdirSync(torn);
    cpSync(segmentPath(left, 1), segmentPath(torn, 1));
    writeFileSync(segmentPath(torn, 2), bytes.subarray(0, cut));
    const events = await drainToTheEnd(adopt(elsewhere.path)[0]!);
    expect(events, `cut at ${cut}`).toContainEqual({ id: 'long', tokens: 12, interrupted: true });
  }
});

test('a torn segment does not hide those after it', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path, { segmentBytes: 1 });
  for (let number = 1; number <= 3; number += 1) await written(journal, event(number));
  await journal.close();
  const second = segmentPath(join(folder.path, journal.name), 2);
  truncateSync(second, statSync(second).size - 3);
  expect(await drainToTheEnd(adopt(folder.path)[0]!)).toEqual([event(1), event(3)]);
});

test('a damaged segment is read up to the damage and kept for the operator', async () => {
  using folder = journalFolder();
  const left = await leftBehind(folder.path, 3);
  const path = segmentPath(left, 1);
  const bytes = readFileSync(path);
  bytes[parseFrames(bytes).ends[0]! + 20]! ^= 0xff;
  writeFileSync(path, bytes);
  const logger = testLogger();
  expect(await drainToTheEnd(adopt(folder.path, logger)[0]!)).toEqual([event(0)]);
  expect(logger.lines.join()).toContain('ends in the middle of a record');
  expect(readdirSync(folder.path)).toEqual(['damaged']);
  expect(readdirSync(join(folder.path, 'damaged'))).toHaveLength(1);
  expect(adopt(folder.path)).toEqual([]);
});

test('a journal with an unreadable segment is not asked again, and is left whole for the next adoption', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path, { segmentBytes: 1 });
  for (let number = 1; number <= 3; number += 1) await written(journal, event(number));
  await journal.close();
  const second = segmentPath(join(folder.path, journal.name), 2);
  renameSync(second, `${second}-elsewhere`);
  mkdirSync(second);
  const [failing] = adopt(folder.path);
  await expect(drainToTheEnd(failing!)).rejects.toMatchObject({ code: 'EISDIR' });
  expect(await drainToTheEnd(failing!)).toEqual([]);
  rmSync(second, { recursive: true });
  renameSync(`${second}-elsewhere`, second);
  expect(await drainToTheEnd(adopt(folder.path)[0]!)).toEqual([1, 2, 3].map(event));
});

test('records with a valid checksum but no sense are skipped, reported in one line, and their segment is kept for the operator', async () => {
  using folder = journalFolder();
  const left = await leftBehind(folder.path, 1);
  const other = openTestJournal(folder.path, { codec: { ...testCodec, encodeEnd: () => '{"no":"event"}' } });
  for (const number of [1, 2]) await written(other, event(number));
  await other.close();
  appendFileSync(segmentPath(left, 1), readFileSync(segmentPath(join(folder.path, other.name), 1)));
  rmSync(join(folder.path, other.name), { recursive: true });
  const logger = testLogger();
  expect(await drainToTheEnd(adopt(folder.path, logger)[0]!)).toEqual([event(0)]);
  expect(readdirSync(join(folder.path, 'damaged'))).toHaveLength(1);
  const [line, ...more] = logger.lines.filter((one) => one.includes('cannot be read'));
  expect(JSON.parse(line!)).toMatchObject({ journal: basename(left), segment: 1, records: 2 });
  expect(more).toEqual([]);
});

test('keeping damaged segments goes on where it failed', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path, { segmentBytes: 1 });
  for (let number = 1; number <= 2; number += 1) await written(journal, event(number));
  await journal.close();
  const left = join(folder.path, journal.name);
  for (const segment of [1, 2]) {
    const bytes = readFileSync(segmentPath(left, segment));
    bytes[bytes.length - 1]! ^= 0xff;
    writeFileSync(segmentPath(left, segment), bytes);
  }
  const taken = join(folder.path, 'damaged', `${journal.name}-segment-2`);
  mkdirSync(taken, { recursive: true });
  const [orphan] = adopt(folder.path);
  await expect(drainToTheEnd(orphan!)).rejects.toMatchObject({ code: 'EISDIR' });
  rmSync(taken, { recursive: true });
  expect(await drainToTheEnd(orphan!)).toEqual([]);
  expect(damagedSegments(folder.path)).toHaveLength(2);
  expect(readdirSync(folder.path)).toEqual(['damaged']);
});

test('what an older version could not read is adopted by a later one, and what nobody can read is kept', async () => {
  using folder = journalFolder();
  const journal = openTestJournal(folder.path, { segmentBytes: 1 });
  journal.begin('event-2', event(0));
  for (let number = 1; number <= 3; number += 1) await written(journal, event(number));
  await journal.close();
  const left = join(folder.path, journal.name);
  // On a busy machine the begin record has a segment of its own.
  const segments = listSegments(left);
  const last = segments.at(-1)!;
  const bytes = readFileSync(segmentPath(left, last));
  bytes[bytes.length - 1]! ^= 0xff;
  writeFileSync(segmentPath(left, last), bytes);
  const older = {
    ...testCodec,
    decode: () => {
      throw new TypeError('not an event');
    },
  };
  const logger = testLogger();
  const failures = testFailures(logger);
  const [orphan] = adoptOrphans({ directory: folder.path, codec: older, clock: systemClock, logger, failures });
  expect(await drainToTheEnd(orphan!)).toEqual([]);
  expect(damagedSegments(folder.path)).toHaveLength(segments.length);

  const takeBack = () => takeBackDamaged({ directory: folder.path, failures });
  takeBack();
  expect(damagedSegments(folder.path)).toEqual([]);
  const [again] = adopt(folder.path);
  // Another process that starts meanwhile leaves it alone.
  takeBack();
  expect(await drainToTheEnd(again!)).toEqual([event(1), event(2)]);
  expect(damagedSegments(folder.path)).toEqual([{ journal: journal.name, segment: last }]);
  expect(readdirSync(folder.path)).toEqual(['damaged']);
});

test('a journal that cannot be adopted is reported, not at each look, and neither ends the process nor keeps the others waiting', async () => {
  using folder = journalFolder();
  const locks = ['a-broken', 'z-broken'].map((name) => {
    mkdirSync(join(folder.path, name));
    return join(folder.path, name, 'lock');
  });
  // Nobody can read or replace them.
  for (const lock of locks) mkdirSync(lock);
  await leftBehind(folder.path, 1);
  const logger = testLogger();
  const failures = testFailures(logger);
  const [orphan, ...others] = adopt(folder.path, logger, failures);
  expect(others).toEqual([]);
  expect(await drainToTheEnd(orphan!)).toEqual([event(0)]);
  expect(adopt(folder.path, logger, failures)).toEqual([]);
  expect(logger.lines).toHaveLength(2);
  for (const lock of locks) rmSync(lock, { recursive: true });
  for (const again of adopt(folder.path, logger, failures)) await drainToTheEnd(again);
  expect(logger.lines).toHaveLength(3);
  expect(logger.lines[2]).toContain('works again');
  writeFileSync(join(folder.path, 'no folder'), '');
  expect(adopt(join(folder.path, 'no folder'))).toEqual([]);
});

test('files that are not journals are left alone', async () => {
  using folder = journalFolder();
  writeFileSync(join(folder.path, 'note.txt'), 'not ours');
  expect(adopt(folder.path)).toEqual([]);
  expect(readdirSync(folder.path)).toEqual(['note.txt']);
});

test('a journal on a copied disk replays the same', async () => {
  using folder = journalFolder();
  using copy = journalFolder();
  const left = await leftBehind(folder.path, 10);
  cpSync(left, join(copy.path, 'from-a-backup'), { recursive: true });
  const fromCopy = await drainToTheEnd(adopt(copy.path)[0]!);
  expect(ids(fromCopy)).toEqual(ids(await drainToTheEnd(adopt(folder.path)[0]!)));
  expect(isEnd('{"t":"e","id":"x","event":{}}')).toBe(true);
});
