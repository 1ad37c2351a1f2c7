import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '#shared/clock.ts';
import { type FolderLock, lockFolder, removedPrefix } from '#shared/folder-lock.ts';
import type { Logger } from '#shared/logger.ts';
import { makeFolder } from '#shared/make-folder.ts';
import type { RepeatedFailures } from '#shared/repeated-failures.ts';
import { type Batch, type EventCodec, type EventSource, eventsPerBatchMax } from './event-codec.ts';
import { createReplay } from './replay.ts';
import { listSegments, readSegment, segmentPath } from './segment-files.ts';

/**
 * Segments that are damaged, or have records this version cannot read, are kept here, below the journals' folder, for an operator or a
 * later version.
 */
const damagedFolder = 'damaged';

type AdoptOptions<Event, Progress> = {
  /** The folder of all journals, as for openJournal. */
  directory: string;
  codec: EventCodec<Event, Progress>;
  clock: Clock;
  logger: Logger;
  /** Journals that cannot be taken over: what is left of ended processes can wait, since this process's own journal tells of the disk. */
  failures: RepeatedFailures;
};

/** The journal of a dead process. It is deleted once every batch is acknowledged and `nextBatch` has answered null. */
export type AdoptedJournal<Event> = EventSource<Event> & {
  /** Gives up the adoption; unless the journal was deleted, another process may adopt it. */
  release(): void;
};

/**
 * Takes over the journals of dead processes; call it at start and from time to time. Each has one adopter at a time. If the adopter dies
 * too, the next one starts from the journal's beginning (Usage.Record is idempotent by event id).
 */
export function adoptOrphans<Event, Progress>(options: AdoptOptions<Event, Progress>): AdoptedJournal<Event>[] {
  const { directory, failures } = options;
  const entries = orNull(failures, directory, () => {
    makeFolder(directory, 0o700);
    return readdirSync(directory, { withFileTypes: true });
  });
  const adopted = entries?.map((entry) => {
    const path = join(directory, entry.name);
    if (!entry.isDirectory() || entry.name === damagedFolder) return [];
    return orNull(failures, path, () => {
      if (entry.name.startsWith(removedPrefix)) {
        rmSync(path, { recursive: true, force: true });
        return [];
      }
      const lock = lockFolder(path);
      return lock === null ? [] : [adoptedJournal(options, entry.name, lock)];
    });
  });
  if (adopted?.every((found) => found !== null)) failures.succeeded();
  return (adopted ?? []).flatMap((found) => found ?? []);
}

function orNull<Found>(failures: RepeatedFailures, path: string, find: () => Found): Found | null {
  try {
    return find();
  } catch (err) {
    failures.failed(err, `failed; the events in ${path} wait there`);
    return null;
  }
}

function adoptedJournal<Event, Progress>(
  options: AdoptOptions<Event, Progress>,
  name: string,
  lock: FolderLock,
): AdoptedJournal<Event> {
  const sinceMs = options.clock.monotonic();
  const events = readEvents(options, name);
  let damaged: number[] | null = null;
  let released = false;
  const once = (letGo: () => void) => {
    if (released) return;
    released = true;
    letGo();
  };

  async function fill(batch: Batch<Event>, closing: AbortSignal): Promise<void> {
    while (damaged === null && !closing.aborted && batch.events.length < eventsPerBatchMax) {
      const next = await events.next();
      if (next.done === true) damaged = next.value;
      else batch.events.push(next.value);
    }
  }

  return {
    name,
    async nextBatch(closing) {
      if (released) return null;
      const batch: Batch<Event> = { events: [], end: { segment: 0, offset: 0 }, sinceMs };
      try {
        await fill(batch, closing);
      } catch (error) {
        // It stays unchanged for the next adoption.
        once(() => lock.release());
        throw error;
      }
      if (batch.events.length > 0) return batch;
      if (damaged !== null) {
        // Those that were moved are not moved again, should one fail.
        for (; damaged.length > 0; damaged.shift()) keepDamaged(options.directory, name, damaged[0]!);
        once(() => lock.removeFolder());
      }
      return null;
    },
    // The folder is deleted as a whole or not at all, since only the journal's end shows which begins have no end.
    acknowledge() {},
    release: () => once(() => lock.release()),
  };
}

const damagedPath = (directory: string, journal: string, segment: number): string =>
  join(directory, damagedFolder, `${journal}-segment-${segment}`);

function keepDamaged(directory: string, journal: string, segment: number): void {
  makeFolder(join(directory, damagedFolder), 0o700);
  renameSync(segmentPath(join(directory, journal), segment), damagedPath(directory, journal, segment));
}

/** The segments kept as damaged. Throws the file system's error if it does not tell. */
export function damagedSegments(directory: string): { journal: string; segment: number }[] {
  return namesIn(join(directory, damagedFolder)).flatMap((name) => {
    const [, journal, segment] = /^(.+)-segment-(\d{1,15})$/.exec(name) ?? [];
    return journal === undefined ? [] : [{ journal, segment: Number(segment) }];
  });
}

/** None where there is no such folder. */
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/**
 * Makes the damaged segments journals again, to be adopted once more; call it at start, before `adoptOrphans`: after a rollback some may be
 * readable again that only the older version could not read. Unreadable ones come back here, and nothing is stored twice.
 */
export function takeBackDamaged({
  directory,
  failures,
}: Pick<AdoptOptions<never, never>, 'directory' | 'failures'>): void {
  const found = orNull(failures, directory, () => damagedSegments(directory)) ?? [];
  for (const [journal, segments] of Object.entries(Object.groupBy(found, ({ journal }) => journal))) {
    const folder = join(directory, journal);
    orNull(failures, folder, () => {
      makeFolder(folder, 0o700);
      const lock = lockFolder(folder);
      try {
        for (const { segment } of lock === null ? [] : segments!) {
          // Another starting process may have been faster, at any point in between.
          const path = damagedPath(directory, journal, segment);
          if (existsSync(path)) renameSync(path, segmentPath(folder, segment));
        }
      } finally {
        lock?.release();
      }
    });
  }
}

/** All events of a journal, followed by the numbers of its damaged segments. */
async function* readEvents<Event, Progress>(
  { directory, codec, logger }: AdoptOptions<Event, Progress>,
  name: string,
): AsyncGenerator<Event, number[], undefined> {
  const folder = join(directory, name);
  const replay = createReplay(codec);
  const damaged: number[] = [];
  for (const segment of listSegments(folder)) {
    let offset = 0;
    let unreadable = 0;
    let example: object = {};
    for (;;) {
      const part = await readSegment(segmentPath(folder, segment), offset);
      for (const text of part.payloads) {
        try {
          const event = replay.accept(text);
          if (event !== null) yield event;
        } catch (error) {
          if (unreadable === 0) example = { err: error, record: text };
          unreadable += 1;
        }
      }
      offset = part.end;
      if (part.tail === 'more') continue;
      if (part.tail !== 'end')
        logger.warn(
          { journal: name, segment, offset, tail: part.tail },
          'a journal segment ends in the middle of a record',
        );
      // In one line: of another version's journal no record may be readable, and a segment holds tens of thousands.
      if (unreadable > 0)
        logger.error(
          { ...example, journal: name, segment, records: unreadable },
          'records of a journal segment cannot be read and are skipped; the segment is kept',
        );
      if (part.tail === 'damaged' || unreadable > 0) damaged.push(segment);
      break;
    }
  }
  yield* replay.interrupted();
  return damaged;
}
