import { beginWalk, closeBracket, comma, openBracket, quote, skipSpace, skipValue } from './json-walk.ts';

/**
 * The number of texts in the array whose bracket is at `start` of a well-formed document. Each is a string or an array of tokens; an array
 * of numbers is the tokens of one text.
 */
export function textsIn(bytes: Buffer, start: number, end: number): number {
  beginWalk();
  let texts = 0;
  let position = skipSpace(bytes, start + 1, end);
  while (bytes[position] !== closeBracket) {
    if (bytes[position] === quote || bytes[position] === openBracket) texts += 1;
    position = skipSpace(bytes, skipValue(bytes, position, end), end);
    if (bytes[position] === comma) position = skipSpace(bytes, position + 1, end);
  }
  return Math.max(1, texts);
}
