import { closingQuote } from './json-strings.ts';

/**
 * The name of a member that occurs twice in one object of a JSON text, however it is escaped; undefined when none does. JSON.parse must
 * have accepted the text: it keeps the last of the two, other parsers keep the first.
 */
export function duplicateMember(text: string): string | undefined {
  // The names of each object that is open, innermost last; an array has none.
  const open: (Set<string> | undefined)[] = [];
  let stringStart = 0;
  let stringEnd = 0;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case quote:
        stringStart = at;
        at = stringEnd = closingQuote(text, at);
        break;
      case colon: {
        const raw = text.slice(stringStart, stringEnd + 1);
        const name: string = raw.includes('\\') ? JSON.parse(raw) : raw.slice(1, -1);
        const last = open.length - 1;
        const names = open[last] ?? new Set();
        if (names.has(name)) return name;
        open[last] = names.add(name);
        break;
      }
      case openBrace:
      case openBracket:
        open.push(undefined);
        break;
      case closeBrace:
      case closeBracket:
        open.pop();
        break;
    }
  }
  return undefined;
}

const quote = 0x22;
const colon = 0x3a;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;
