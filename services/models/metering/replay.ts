import type { EventCodec } from './event-codec.ts';
import { parseRecord } from './record.ts';

/** Turns the records of a dead process's journal into events; memory grows with the requests that were open only. */
export type Replay<Event> = {
  /** Takes the next record; answers the event it completes. Throws for a record that cannot be read, and goes on after it. */
  accept(text: string): Event | null;
  /** The requests which began and never ended, each with what was counted of it. Call it behind the last record. */
  interrupted(): Event[];
};

/** reliability.md, Metering: an end is its event; a begin without an end is an event of what was counted so far. */
export function createReplay<Event, Progress>(codec: EventCodec<Event, Progress>): Replay<Event> {
  const open = new Map<string, { begin: Event; progress: Progress | null }>();
  return {
    accept(text) {
      const record = parseRecord(text);
      switch (record.t) {
        case 'b':
          open.set(record.id, { begin: codec.decode(record.event), progress: null });
          return null;
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
