/**
 * Where the string ends whose opening quote is at `start` of a JSON text: at the first quote with an even number of backslashes before it.
 */
export function closingQuote(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let escapes = 0;
    while (text.charCodeAt(end - 1 - escapes) === backslash) escapes += 1;
    if (escapes % 2 === 0) return end;
  }
}

const backslash = 0x5c;
