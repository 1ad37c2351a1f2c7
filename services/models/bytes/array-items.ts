import { beginWalk, closeBracket, comma, openBrace, skipSpace, skipValue } from './json-walk.ts';

/** Where the objects of an array stand, whose bracket is at `start`, in a well-formed document; null when one item is none. */
export function objectsIn(bytes: Buffer, start: number, end: number): { start: number; end: number }[] | null {
  beginWalk();
  const items = [];
  let position = skipSpace(bytes, start + 1, end);
  while (bytes[position] !== closeBracket) {
    if (bytes[position] !== openBrace) return null;
    const itemEnd = skipValue(bytes, position, end);
    if (itemEnd < 0) return null;
    items.push({ start: position, end: itemEnd });
    position = skipSpace(bytes, itemEnd, end);
    if (bytes[position] === comma) position = skipSpace(bytes, position + 1, end);
  }
  return items;
}
