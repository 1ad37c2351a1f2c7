import type { EventCodec } from './event-codec.ts';
import { parseRecord } from './record.ts';

/** Turns the records of a dead process's journal into events; its memory grows only with the requests that were open. */
type Replay<Event> = {
  /** Takes the next record; returns the event that it completes. Throws for an unreadable record, after which it can go on. */
  accept(text: string): Event | null;
  /** The requests that began and never ended, each with what was counted of it. Call it after the last record. */
  interrupted(): Event[];
};

/** reliability.md, Metering: an end record is its event; a begin without an end becomes an event of what was counted so far. */
export function createReplay<Event, Progress>(codec: EventCodec<Event, Progress>): Replay<Event> {
  const open = new Map<string, { begin: Event; progress: Progress | null }>();
  return {
    accept(text) {
      const record = parseRecord(text);
      switch (record.t) {
        case 'b': {
          // The copy of a long request's begin may be the last thing written, before that of its progress.
          const progress = open.get(record.id)?.progress ?? null;
          open.set(record.id, { begin: codec.decode(record.event), progress });
          return null;
        }
        case 'p': {
          const request = open.get(record.id);
          if (request !== undefined) request.progress = record.counted as Progress;
          return null;
        }
        case 'e':
          open.delete(record.id);
          return codec.decode(record.event);
        default:
          return record satisfies never;
      }
    },
    interrupted: () =>
      [...open.values()]
        .map(({ begin, progress }) => codec.interrupted(begin, progress))
        .filter((event) => event !== null),
  };
}
