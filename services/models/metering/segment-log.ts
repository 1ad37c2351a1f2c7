import * as fs from 'node:fs';
import { EndOfTurn } from '#shared/end-of-turn.ts';
import type { Logger } from '#shared/logger.ts';
import type { LogPosition } from './event-codec.ts';
import { FrameBuffer } from './frame.ts';
import { type RecordText, recordTail } from './record.ts';
import { segmentPath } from './segment-files.ts';

/** The file operations by which a journal writes; tests replace them with failing ones. */
export type JournalFiles = {
  openSync(path: string, flags: string): number;
  writeSync(fd: number, bytes: Buffer, offset: number, length: number, position: number): number;
  fdatasync(fd: number, done: (error: Error | null) => void): void;
  fsync(fd: number, done: (error: Error | null) => void): void;
  close(fd: number, done: (error: Error | null) => void): void;
  unlink(path: string, done: (error: Error | null) => void): void;
};

/**
 * `group`: a record survives the process's death as soon as it is written, and a power loss 10 ms later. `always`: nothing counts as
 * written before the disk has it.
 */
export type JournalSync = 'group' | 'always';

type SegmentLogOptions = {
  folder: string;
  segmentBytes: number;
  sync: JournalSync;
  logger: Logger;
  files?: JournalFiles;
  /** Called once, when the disk could not confirm written data. The process must end: nobody knows what the disk has. */
  onFatal(error: Error): void;
};

const groupSyncMs = 10;
/** The longest that a record waits to be written together with others, when a turn of the event loop is long. */
const waitMsMax = 20;
const writeRetryMs = 100;

/**
 * An append-only log of frames in numbered files. Appends are buffered and written at once at the end of the loop turn. A failed write
 * keeps its bytes and repeats them at the same offset, so that the file never holds a frame twice or in part; a failed fdatasync is never
 * repeated (reliability.md, Faults).
 */
export class SegmentLog {
  readonly #options: SegmentLogOptions;
  readonly #files: JournalFiles;
  readonly #frames = new FrameBuffer();
  readonly #sealed: { segment: number; bytes: number }[] = [];
  readonly #folderFd: number | null;
  #segment = 1;
  /** How many bytes of the current segment are in its file. */
  #written = 0;
  #fd: number | null = null;
  readonly #writing = new EndOfTurn(waitMsMax, () => {
    if (this.#retry === null) this.flush();
    else this.#release();
  });
  #retry: NodeJS.Timeout | null = null;
  #healthy = true;
  #failed = false;
  /** Called after the next flush. */
  #onWritten: (() => void)[] = [];
  /** Called after the sync that follows the next flush. */
  #onDurable: (() => void)[] = [];
  /** Called after the next sync. */
  #onSynced: (() => void)[] = [];
  /** Files written since the last sync began, and whether one of them is new: then its name needs a sync too. */
  #unsynced = { fds: new Set<number>(), newFiles: false };
  #syncTimer: NodeJS.Timeout | null = null;
  #syncing: Promise<void> | null = null;
  readonly #removals = new Set<Promise<void>>();
  writeErrors = 0;

  constructor(options: SegmentLogOptions) {
    this.#options = options;
    this.#files = options.files ?? fs;
    // Windows cannot open a folder; its file systems keep a new file's name by themselves.
    this.#folderFd = process.platform === 'win32' ? null : this.#files.openSync(options.folder, 'r');
  }

  /** False while the disk refuses writes, and for good after a failed sync. */
  get healthy(): boolean {
    return this.#healthy && !this.#failed;
  }

  /** The segment to which the next record goes. */
  get segment(): number {
    return this.#segment;
  }

  /** The position after the last appended record, whether or not it is in its file yet. */
  get end(): LogPosition {
    return { segment: this.#segment, offset: this.#written + this.#frames.length };
  }

  /** The position after the last record that is in its file. */
  get writtenEnd(): LogPosition {
    return { segment: this.#segment, offset: this.#written };
  }

  /** The oldest segment that is still there. */
  get firstSegment(): number {
    return this.#sealed[0]?.segment ?? this.#segment;
  }

  /** The number of full segments before the given one. */
  sealedBefore(segment: number): number {
    return this.#sealed.filter((sealed) => sealed.segment < segment).length;
  }

  get bytes(): number {
    return this.#sealed.reduce((sum, { bytes }) => sum + bytes, this.#written + this.#frames.length);
  }

  get segments(): number {
    return this.#sealed.length + (this.#fd === null ? 0 : 1);
  }

  /**
   * Appends a record. `onWritten` is called, in order, once the record is safe from this process's death (`always`: from power loss). While
   * the disk refuses writes it is called anyway, so that open requests can finish; the record then waits in memory. After a failed sync it
   * is never called.
   */
  append(record: RecordText, onWritten?: () => void): void {
    // Before the record, so that its position is known once it is appended.
    this.#writing.ask();
    this.#frames.append(record.head, record.json, recordTail);
    if (onWritten !== undefined) this.#onWritten.push(onWritten);
  }

  /** Call it after `append`: `onDurable` is called only when all that was appended is on the disk, however long that takes. */
  whenDurable(onDurable: () => void): void {
    this.#onDurable.push(onDurable);
  }

  /** Writes what is buffered, now. */
  flush(): void {
    if (this.#failed || this.#frames.length === 0) return;
    try {
      const fd = this.#openSegment();
      const { length: all } = this.#frames;
      this.#frames.drain((bytes, offset, length) => {
        const count = this.#files.writeSync(fd, bytes, offset, length, this.#written + offset);
        if (count === 0) throw new Error('the file system wrote nothing');
        return count;
      });
      this.#written += all;
      this.#unsynced.fds.add(fd);
    } catch (error) {
      this.#refused(error);
      return;
    }
    if (!this.#healthy) {
      this.#healthy = true;
      this.#options.logger.info({ folder: this.#options.folder }, 'the journal can be written again');
    }
    if (this.#written >= this.#options.segmentBytes) this.#seal();
    this.#onSynced.push(...this.#onDurable.splice(0));
    if (this.#options.sync === 'always') this.#onSynced.push(...this.#onWritten.splice(0));
    else this.#release();
    this.#scheduleSync();
  }

  #openSegment(): number {
    if (this.#fd === null) {
      this.#fd = this.#files.openSync(segmentPath(this.#options.folder, this.#segment), 'w');
      this.#unsynced.newFiles = true;
    }
    return this.#fd;
  }

  #refused(error: unknown): void {
    this.writeErrors += 1;
    if (this.#healthy) {
      this.#healthy = false;
      const { folder } = this.#options;
      this.#options.logger.error({ err: error, folder }, 'the journal cannot be written; new billable work is refused');
    }
    this.#retry ??= setTimeout(() => {
      this.#retry = null;
      this.flush();
    }, writeRetryMs).unref();
    this.#release();
  }

  /** Lets everybody who waits for a write go on. */
  #release(): void {
    if (this.#onWritten.length === 0) return;
    const waiting = this.#onWritten;
    this.#onWritten = [];
    this.#call(waiting);
  }

  #call(callbacks: (() => void)[]): void {
    for (const callback of callbacks) {
      try {
        callback();
      } catch (error) {
        this.#options.logger.error({ err: error }, 'a callback of the journal failed');
      }
    }
  }

  /** Deletes all files, none of which is needed any longer, while the disk refuses writes: it may need nothing but their space. */
  startOver(): void {
    if (this.#failed || this.#fd === null || this.#written === 0) return;
    // Closed after its sync, like any other; only then is its space free.
    this.#unsynced.fds.add(this.#fd);
    this.#seal();
    this.#scheduleSync();
    this.removeBefore(this.#segment);
  }

  #seal(): void {
    this.#sealed.push({ segment: this.#segment, bytes: this.#written });
    this.#segment += 1;
    this.#written = 0;
    this.#fd = null;
  }

  #sync = (): void => {
    this.#syncTimer = null;
    if (this.#syncing === null && !this.#failed) this.#syncing = this.#syncGroup();
  };

  async #syncGroup(): Promise<void> {
    const { fds, newFiles } = this.#unsynced;
    const waiting = this.#onSynced;
    this.#unsynced = { fds: new Set(), newFiles: false };
    this.#onSynced = [];
    try {
      await Promise.all([...fds].map((fd) => confirmed((done) => this.#files.fdatasync(fd, done))));
      const folderFd = this.#folderFd;
      if (newFiles && folderFd !== null) await confirmed((done) => this.#files.fsync(folderFd, done));
    } catch (error) {
      this.#failed = true;
      this.#options.onFatal(error as Error);
      return;
    } finally {
      this.#syncing = null;
    }
    for (const fd of fds) if (fd !== this.#fd && !this.#unsynced.fds.has(fd)) this.#close(fd);
    this.#call(waiting);
    if (this.#unsynced.fds.size > 0) this.#scheduleSync();
  }

  #scheduleSync(): void {
    if (this.#options.sync === 'always') this.#sync();
    else this.#syncTimer ??= setTimeout(this.#sync, groupSyncMs).unref();
  }

  /** Deletes the files of all full segments numbered below `segment`, in the background: deleting one takes milliseconds. */
  removeBefore(segment: number): void {
    while (this.#sealed[0] !== undefined && this.#sealed[0].segment < segment) {
      const path = segmentPath(this.#options.folder, this.#sealed.shift()!.segment);
      const removal = confirmed((done) => this.#files.unlink(path, done))
        // At worst an adopter sends the rest again.
        .catch((error) => this.#options.logger.warn({ err: error, path }, 'a journal segment could not be deleted'))
        .finally(() => this.#removals.delete(removal));
      this.#removals.add(removal);
    }
  }

  /**
   * Writes and syncs what it can, closes the files, and waits for running deletions: the next adopter of the folder must find the files
   * that it lists. Nothing may be appended afterwards.
   */
  async close(): Promise<void> {
    this.flush();
    if (this.#retry !== null) clearTimeout(this.#retry);
    while (!this.#failed && (this.#syncing !== null || this.#unsynced.fds.size > 0)) {
      if (this.#syncTimer !== null) clearTimeout(this.#syncTimer);
      this.#sync();
      await this.#syncing;
    }
    if (this.#fd !== null) this.#close(this.#fd);
    if (this.#folderFd !== null) this.#close(this.#folderFd);
    await Promise.all(this.#removals);
  }

  #close(fd: number): void {
    // The sync before has confirmed everything that matters.
    this.#files.close(fd, () => {});
  }
}

const confirmed = (call: (done: (error: Error | null) => void) => void): Promise<void> =>
  new Promise((resolve, reject) => call((error) => (error === null ? resolve() : reject(error))));
