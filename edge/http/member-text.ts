import { closingQuote } from './json-strings.ts';

/**
 * The text of a member's value as it stands in the JSON text of an object, since JSON.parse rounds numbers beyond 2^53. Undefined when
 * there is no such member. JSON.parse must have accepted the text, and no name may occur in it twice.
 */
export function memberText(text: string, name: string): string | undefined {
  let depth = 0;
  let stringStart = 0;
  let stringEnd = 0;
  let valueStart: number | undefined;
  for (let at = 0; at < text.length; at += 1) {
    switch (text[at]) {
      case '"':
        stringStart = at;
        at = stringEnd = closingQuote(text, at);
        break;
      case ':':
        if (depth === 1 && JSON.parse(text.slice(stringStart, stringEnd + 1)) === name) valueStart = at + 1;
        break;
      case '{':
      case '[':
        depth += 1;
        break;
      case '}':
      case ']':
        depth -= 1;
        if (depth === 0 && valueStart !== undefined) return text.slice(valueStart, at).trim();
        break;
      case ',':
        if (depth === 1 && valueStart !== undefined) return text.slice(valueStart, at).trim();
        break;
    }
  }
  return undefined;
}
