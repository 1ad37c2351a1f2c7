import { StartError } from '../start-error.ts';

/** The environment, each value without the blanks around it. */
export type Source = Readonly<Record<string, string | undefined>>;

/** Ends a start. The value itself stays out of it: it may be a secret. */
export const badVariable = (name: string, expected: string): StartError =>
  new StartError(`${name} is not valid: expected ${expected}.`);

/** The entries of a list with commas between them. */
export const listOf = (text: string | undefined): string[] =>
  (text ?? '')
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '');

type IntegerRange = { fallback: number; min: number; max: number };

/** @throws StartError unless it is missing or a whole number in the range. */
export function readInteger(source: Source, name: string, { fallback, min, max }: IntegerRange): number {
  const text = source[name];
  if (text === undefined || text === '') return fallback;
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < min || value > max)
    throw badVariable(name, `a whole number from ${min} to ${max}`);
  return value;
}

/** @throws StartError unless it is missing or one of the choices. */
export function readChoice<Choice extends string>(
  source: Source,
  name: string,
  choices: readonly Choice[],
  fallback: Choice,
): Choice {
  const text = source[name] || fallback;
  const choice = choices.find((one) => one === text);
  if (choice === undefined) throw badVariable(name, `one of ${choices.join(', ')}`);
  return choice;
}

/** In a URL such a character ends the host and port. */
export const encodedPassword = ', with `#`, `/`, `?` and `%` in a password written as `%23`, `%2F`, `%3F` and `%25`';

/** @throws StartError unless it is missing or a URL with one of the protocols, such as `http:`. */
export function readUrl(source: Source, name: string, protocols: readonly string[]): string | undefined {
  const text = source[name];
  if (text === undefined || text === '') return undefined;
  if (!URL.canParse(text) || !protocols.includes(new URL(text).protocol)) {
    const starts = `a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`;
    throw badVariable(name, text.includes('@') ? `${starts}${encodedPassword}` : starts);
  }
  return text;
}
