/** What one frame says: a request began, got so far, or ended. */
export type JournalRecord =
  | { t: 'b'; id: string; event: unknown }
  | { t: 'p'; id: string; counted: unknown }
  | { t: 'e'; id: string; event: unknown };

// Written by hand, not by JSON.stringify, since the event is JSON text already.
export const beginText = (id: string, event: string): string => `{"t":"b","id":${JSON.stringify(id)},"event":${event}}`;
export const progressText = (id: string, counted: string): string =>
  `{"t":"p","id":${JSON.stringify(id)},"counted":${counted}}`;
export const endText = (id: string, event: string): string => `{"t":"e","id":${JSON.stringify(id)},"event":${event}}`;

/** Whether a frame's text is an end record, without parsing it. */
export const isEnd = (text: string): boolean => text.startsWith('{"t":"e"');

/** Reads a frame's text. Throws a SyntaxError or TypeError for anything else than a record. */
export function parseRecord(text: string): JournalRecord {
  const record: unknown = JSON.parse(text);
  if (typeof record !== 'object' || record === null) throw new TypeError('a journal record is an object');
  const { t, id } = record as { t?: unknown; id?: unknown };
  if ((t !== 'b' && t !== 'p' && t !== 'e') || typeof id !== 'string') {
    throw new TypeError('a journal record has a type and an id');
  }
  return record as JournalRecord;
}
