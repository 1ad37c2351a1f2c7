/** The content of one frame: a request began, got this far, or ended. */
type JournalRecord =
  | { t: 'b'; id: string; event: unknown }
  | { t: 'p'; id: string; counted: unknown }
  | { t: 'e'; id: string; event: unknown };

/** A record on its way to the file: the text before its JSON value, and the value. */
export type RecordText = { head: string; json: string };
export const recordTail = '}';

// Written by hand, not by JSON.stringify, since the value is JSON text already.
export const beginRecord = (id: string, event: string): RecordText => ({ head: head('b', id, 'event'), json: event });
export const progressRecord = (id: string, counted: string): RecordText => ({
  head: head('p', id, 'counted'),
  json: counted,
});
export const endRecord = (id: string, event: string): RecordText => ({ head: head('e', id, 'event'), json: event });

const head = (type: JournalRecord['t'], id: string, field: 'event' | 'counted'): string =>
  `{"t":"${type}","id":${JSON.stringify(id)},"${field}":`;

/** Whether a frame's text is an end record, without parsing it. */
export const isEnd = (text: string): boolean => text.startsWith('{"t":"e"');

/** Reads a frame's text. Throws a SyntaxError or TypeError for anything but a record. */
export function parseRecord(text: string): JournalRecord {
  const record: unknown = JSON.parse(text);
  if (typeof record !== 'object' || record === null) throw new TypeError('a journal record is an object');
  const { t, id } = record as { t?: unknown; id?: unknown };
  if ((t !== 'b' && t !== 'p' && t !== 'e') || typeof id !== 'string') {
    throw new TypeError('a journal record has a type and an id');
  }
  return record as JournalRecord;
}
