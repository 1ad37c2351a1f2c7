import type { Clock } from '#shared/clock.ts';
import { type FolderLock, lockNewFolder } from '#shared/folder-lock.ts';
import type { Logger } from '#shared/logger.ts';
import { BatchQueue } from './batch-queue.ts';
import { type Batch, type EventCodec, type EventSource, eventsPerBatchMax, type LogPosition } from './event-codec.ts';
import { beginRecord, endRecord, isEnd, parseRecord, progressRecord, type RecordText } from './record.ts';
import { readSegment, type SegmentPart, segmentPath } from './segment-files.ts';
import { type JournalFiles, type JournalSync, SegmentLog } from './segment-log.ts';

export type JournalOptions<Event, Progress> = {
  /** The folder of all journals in this data directory; each process gets its own below it. */
  directory: string;
  codec: EventCodec<Event, Progress>;
  clock: Clock;
  logger: Logger;
  /** See JournalSync; the setting JOURNAL_SYNC. */
  sync?: JournalSync;
  segmentBytes?: number;
  /** How many ended events are kept in memory for the shipper; further ones are read back from the files. */
  eventsInMemoryMax?: number;
  files?: JournalFiles;
  /** The disk could not confirm written data, so the process must end. Called at most once. */
  onFatal(error: Error): void;
};

type JournalStats = {
  healthy: boolean;
  /** The size of the journal, unwritten bytes included. */
  bytes: number;
  segments: number;
  /** Ended and not acknowledged. */
  pendingEvents: number;
  /** Begun and not ended. */
  openEvents: number;
  /** Age of the oldest event that is not acknowledged, in milliseconds. */
  lagMs: number;
  writeErrors: number;
};

const segmentBytesDefault = 8 * 1024 * 1024;
const eventsInMemoryMaxDefault = 10 * eventsPerBatchMax;
/** How long events gather into a batch; longer under load, since a large batch costs Usage and Billing little more than a small one. */
const batchDelayMs = 50;
const busyBatchDelayMs = 250;
const busyBatchEvents = 10;
const readRetryMs = 100;

/** When the begin records of long requests hold back more full segments than this, they are copied. */
const segmentsHeldMax = 4;

type OpenRequest = { segment: number; begin: RecordText; progress: RecordText | null };

/**
 * The journal of metering (reliability.md, Metering): the begin, progress and end of each request, on this machine's disk before the
 * response's last bytes leave, until Usage has stored the event.
 */
export class Journal<Event, Progress> implements EventSource<Event> {
  readonly name: string;
  readonly #options: JournalOptions<Event, Progress>;
  readonly #folder: string;
  readonly #lock: FolderLock;
  readonly #log: SegmentLog;
  /** Requests that have begun and not ended, with the records that would be lost with their segment. */
  readonly #open = new Map<string, OpenRequest>();
  readonly #queue: BatchQueue<Event>;
  /** Set while there are more events than memory should hold: where in the files the next one is looked for. */
  #readFrom: LogPosition | null = null;
  #handedOut: Batch<Event> | null = null;
  #carrying = false;
  /** When the first event of each segment ended, in monotonic milliseconds; for the lag of events no longer in memory. */
  #segmentTimes: { segment: number; sinceMs: number }[] = [];
  #pending = 0;
  #isBusy = false;
  #wakeAt = Number.POSITIVE_INFINITY;
  #wake: () => void = () => {};

  constructor(options: JournalOptions<Event, Progress>, folder: { name: string; path: string; lock: FolderLock }) {
    this.name = folder.name;
    this.#options = options;
    this.#folder = folder.path;
    this.#lock = folder.lock;
    this.#queue = new BatchQueue(options.eventsInMemoryMax ?? eventsInMemoryMaxDefault);
    this.#log = new SegmentLog({
      folder: folder.path,
      segmentBytes: options.segmentBytes ?? segmentBytesDefault,
      sync: options.sync ?? 'group',
      logger: options.logger,
      files: options.files,
      onFatal: options.onFatal,
    });
  }

  /** False while the disk refuses writes: new billable work must be refused (503); open requests may finish. */
  get healthy(): boolean {
    return this.#log.healthy;
  }

  /** A request was admitted. The record is written before the turn of the loop ends, hence before any upstream can answer. */
  begin(id: string, event: Event): void {
    const begin = beginRecord(id, this.#options.codec.encode(event));
    this.#log.append(begin);
    this.#open.set(id, { segment: this.#log.segment, begin, progress: null });
  }

  /** What an open request has produced so far; each record replaces the one before it. `onWritten` as in `end`. */
  progress(id: string, counted: Progress, onWritten?: () => void): void {
    const request = this.#open.get(id);
    if (request === undefined) return;
    request.progress = progressRecord(id, JSON.stringify(counted));
    // While the disk refuses writes, only begins and ends are kept for it, so that memory stays bounded.
    if (this.#log.healthy) this.#log.append(request.progress, onWritten);
    else if (onWritten !== undefined) setImmediate(onWritten);
  }

  /**
   * A request ended. `onWritten` is called once the event can no longer be lost by this process's death (well under a millisecond): send
   * the response's last bytes then. SegmentLog.append says what happens when the disk is full.
   */
  end(id: string, event: Event, onWritten?: () => void): void {
    const { codec } = this.#options;
    const begun = this.#open.get(id)?.begin.json ?? codec.encode(event);
    this.#log.append(endRecord(id, codec.encodeEnd(event, begun)), onWritten);
    this.#open.delete(id);
    this.#pending += 1;
    this.#noteTime();
    if (this.#readFrom === null) {
      if (this.#queue.full) this.#readFrom = this.#queue.last!.end;
      else this.#queue.push(event, this.#log.end, this.#options.clock.monotonic());
    }
    if (this.#available >= this.#wakeAt) this.#wake();
  }

  /** An open request becomes no event. Its begin stays in the files, so the codec's `interrupted` must return null for it. */
  drop(id: string): void {
    this.#open.delete(id);
    this.#startOverIfFull();
  }

  get #available(): number {
    return this.#pending - (this.#handedOut?.events.length ?? 0);
  }

  #noteTime(): void {
    const { segment } = this.#log;
    if (this.#segmentTimes.at(-1)?.segment === segment) return;
    this.#segmentTimes = this.#segmentTimes.filter((time) => time.segment >= this.#log.firstSegment);
    this.#segmentTimes.push({ segment, sinceMs: this.#options.clock.monotonic() });
  }

  /** When the first event of a segment ended: no event of the segment ended earlier. */
  #sinceMs(segment: number): number {
    const time = this.#segmentTimes.find((candidate) => candidate.segment >= segment);
    return time?.sinceMs ?? this.#options.clock.monotonic();
  }

  async nextBatch(closing: AbortSignal): Promise<Batch<Event> | null> {
    for (;;) {
      await this.#until(1, null, closing);
      await this.#until(eventsPerBatchMax, this.#isBusy ? busyBatchDelayMs : batchDelayMs, closing);
      const batch = this.#queue.take() ?? (await this.#readBatch());
      if (batch !== null) {
        this.#handedOut = batch;
        this.#isBusy = batch.events.length >= busyBatchEvents;
        return batch;
      }
      if (closing.aborted) return null;
      await this.#until(Number.POSITIVE_INFINITY, readRetryMs, closing);
    }
  }

  /** Resolves when `count` events can be taken, after `timeoutMs`, or when `closing` aborts. */
  #until(count: number, timeoutMs: number | null, closing: AbortSignal): Promise<void> | undefined {
    if (closing.aborted || this.#available >= count) return undefined;
    return new Promise((resolve) => {
      const timer = timeoutMs === null ? null : setTimeout(() => this.#wake(), timeoutMs);
      this.#wakeAt = count;
      this.#wake = () => {
        this.#wakeAt = Number.POSITIVE_INFINITY;
        if (timer !== null) clearTimeout(timer);
        closing.removeEventListener('abort', this.#wake);
        this.#wake = () => {};
        resolve();
      };
      closing.addEventListener('abort', this.#wake);
    });
  }

  /** Reads the next events back from the files; returns to memory once it has caught up with the writer. */
  async #readBatch(): Promise<Batch<Event> | null> {
    const events: Event[] = [];
    const sinceMs = this.#sinceMs(this.#readFrom?.segment ?? 0);
    while (this.#readFrom !== null && events.length < eventsPerBatchMax) {
      const { segment, offset } = this.#readFrom;
      const { segment: lastSegment, offset: endOffset } = this.#log.end;
      if (segment === lastSegment && offset === endOffset) {
        // Whatever could not be read on the way is given up.
        this.#readFrom = null;
        this.#pending = events.length;
        break;
      }
      if (segment === lastSegment && offset >= this.#log.writtenEnd.offset) break;
      const read = await readSegment(segmentPath(this.#folder, segment), offset).catch((error) => {
        // Somebody has made room on the disk: it will not come back, and what follows must not wait for it.
        if (error.code === 'ENOENT' && segment < this.#log.segment) return 'gone';
        // What was read before has been left behind, so it goes out by itself; the next call fails.
        if (events.length === 0) throw error;
        return null;
      });
      if (read === null) break;
      if (read === 'gone') {
        this.#options.logger.error({ segment, offset }, 'a journal segment is gone; the rest of its events are lost');
        this.#readFrom = { segment: segment + 1, offset: 0 };
        continue;
      }
      const part = this.#writtenOf(segment, read);
      const taken = this.#decodeEnds(part, eventsPerBatchMax - events.length);
      events.push(...taken.events);
      this.#readFrom = { segment, offset: taken.end };
      if (taken.end === part.end && part.tail !== 'more' && segment < this.#log.segment) {
        if (part.tail !== 'end')
          this.#options.logger.error(
            { segment, offset: part.end },
            'a journal segment is damaged; the rest of it is skipped',
          );
        this.#readFrom = { segment: segment + 1, offset: 0 };
      } else if (taken.end === offset) {
        // A full disk cut this write short; the rest will follow.
        break;
      }
    }
    if (events.length === 0) return null;
    // Set here and not after the caller's await: a request that is dropped in between would delete the files of these events.
    this.#handedOut = { events, end: this.#readFrom ?? this.#log.end, sinceMs };
    return this.#handedOut;
  }

  /** Without what follows the last complete write: the beginning of one for which the disk had no room, and which will be repeated. */
  #writtenOf(segment: number, part: SegmentPart): SegmentPart {
    const { writtenEnd } = this.#log;
    if (segment !== writtenEnd.segment || part.end <= writtenEnd.offset) return part;
    const ends = part.ends.filter((end) => end <= writtenEnd.offset);
    return { ...part, payloads: part.payloads.slice(0, ends.length), ends, end: writtenEnd.offset };
  }

  /** The events among the frames, at most `count`, and the position after the last frame that was read. */
  #decodeEnds(part: SegmentPart, count: number): { events: Event[]; end: number } {
    const events: Event[] = [];
    for (const [index, text] of part.payloads.entries()) {
      if (!isEnd(text)) continue;
      try {
        events.push(this.#options.codec.decode((parseRecord(text) as { event: unknown }).event));
      } catch (error) {
        this.#options.logger.error({ err: error, record: text }, 'a journal record cannot be read and is skipped');
      }
      if (events.length === count) return { events, end: part.ends[index]! };
    }
    return { events, end: part.end };
  }

  acknowledge(batch: Batch<Event>): void {
    this.#handedOut = null;
    this.#pending -= batch.events.length;
    const idle = this.#pending === 0 && this.#readFrom === null;
    this.#deleteBefore(idle ? this.#log.segment : batch.end.segment);
    this.#startOverIfFull();
  }

  /** The current segment may fill a small disk: once all that it contains has been stored, it is deleted although it is not full. */
  #startOverIfFull(): void {
    if (this.#log.healthy || this.#open.size > 0 || this.#handedOut !== null || this.#queue.first !== undefined) return;
    const { segment, offset } = this.#log.writtenEnd;
    const from = this.#readFrom;
    if (from !== null && (from.segment !== segment || from.offset !== offset)) return;
    this.#log.startOver();
    if (from !== null) this.#readFrom = this.#log.writtenEnd;
  }

  /** Deletes the segments below `bound`, except those with the only record of an open request. */
  #deleteBefore(bound: number): void {
    if (this.#carrying || this.#log.sealedBefore(bound) === 0) return;
    const held = [...this.#open.values()].filter((request) => request.segment < bound);
    const firstHeld = held.reduce((first, { segment }) => Math.min(first, segment), bound);
    this.#log.removeBefore(firstHeld);
    // A full disk takes no copies, and a few segments are not worth copying.
    if (this.#log.healthy && this.#log.sealedBefore(bound) > segmentsHeldMax) this.#carryOver(held, bound);
  }

  /** Repeats the records of long requests at the end of the journal, so that the segments in which they began can go. */
  #carryOver(requests: OpenRequest[], bound: number): void {
    this.#carrying = true;
    for (const request of requests) {
      this.#log.append(request.begin);
      // Each its own: so many may be written meanwhile that a segment is full.
      request.segment = this.#log.segment;
      if (request.progress !== null) this.#log.append(request.progress);
    }
    this.#log.whenDurable(() => {
      this.#carrying = false;
      this.#log.removeBefore(bound);
    });
  }

  stats(): JournalStats {
    const oldest = this.#handedOut ?? this.#queue.first;
    const sinceMs = oldest?.sinceMs ?? (this.#readFrom === null ? null : this.#sinceMs(this.#readFrom.segment));
    return {
      healthy: this.healthy,
      bytes: this.#log.bytes,
      segments: this.#log.segments,
      pendingEvents: this.#pending,
      openEvents: this.#open.size,
      lagMs: sinceMs === null ? 0 : this.#options.clock.monotonic() - sinceMs,
      writeErrors: this.#log.writeErrors,
    };
  }

  /**
   * Writes, syncs and closes. If everything is acknowledged and nothing is open, the folder is deleted; otherwise the next process adopts
   * it.
   */
  async close(): Promise<void> {
    await this.#log.close();
    const unwrittenBytes = this.#log.end.offset - this.#log.writtenEnd.offset;
    if (this.#pending > 0 && unwrittenBytes > 0)
      this.#options.logger.error(
        { folder: this.#folder, bytes: unwrittenBytes },
        'the disk took no writes to the end: calls that ended meanwhile, and that Usage has not stored, are lost and not charged',
      );
    if (this.#pending === 0 && this.#open.size === 0) this.#lock.removeFolder();
    else this.#lock.release();
  }
}

/** Starts this process's journal in a folder of its own below `directory`. Throws the file system's error if it cannot. */
export function openJournal<Event, Progress>(options: JournalOptions<Event, Progress>): Journal<Event, Progress> {
  return new Journal(options, lockNewFolder(options.directory));
}
