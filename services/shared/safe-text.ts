import { invalidValue } from './errors.ts';

/** Escapes a text for HTML: names come from people, operators and upstreams (security.md, mail injection). */
export const escapeHtml = (text: string): string =>
  text.toWellFormed().replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** What ends a line, hides text or turns it round; not the joiners, which spell Persian and Indian words and composed emoji. */
const hiding = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\u200c\u200d]]+/gv;

/** Removes what could end a header line or hide text. */
export const oneLine = (text: string): string => text.toWellFormed().replace(hiding, ' ').trim();

/** A text for a terminal, which obeys control characters. Its lines stay. */
export const forTerminal = (text: string): string =>
  text.toWellFormed().replace(hiding, (run) => run.replace(/[^\n\t]/gu, '?'));

/**
 * A name for a mail: one line, of which no program makes a link. Otherwise an organization could be called "Acme: sign in at
 * https://…", and the gateway would mail that to whomever it invites. A word joiner shows nothing.
 */
export const nameInMail = (name: string): string =>
  oneLine(name).replace(/:(?=\/\/)|(?<=[\p{L}\p{N}])\.(?=[\p{L}\p{N}]{2})|@(?=\S)/gu, '$&\u2060');

/** Postgres stores neither a NUL nor half a surrogate pair in a text, and nobody sends one on purpose. */
export const isStorableText = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/**
 * What makes a name read like another one in a list or log: control characters, line breaks, changes of the writing direction, and more
 * marks on a letter than any script has, which are drawn over the names above and below.
 */
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]|[\p{Mn}\p{Me}]{8}/u;

/** A visible character: neither blank, which the Braille pattern without dots is too, nor without width. */
const visible = /[^\s\u2800\p{Default_Ignorable_Code_Point}]/u;

/** Whether a name has something to show, and nothing that misleads. A lone surrogate is no character and cannot be stored. */
export const isFitToShow = (name: string): boolean =>
  visible.test(name) && !misleading.test(name) && name.isWellFormed();

/**
 * A name shown to people, composed (NFC) and without blanks around it, so that those that look alike are found alike; it may be empty.
 * @throws GatewayError INVALID_REQUEST that names the field when the name could mislead.
 */
export function shownName(text: string, param: string): string {
  const name = text.normalize().trim();
  if (text === '' || isFitToShow(name)) return name;
  throw invalidValue(
    param,
    'it needs visible characters, and may have no line breaks, other control characters or heaps of accents',
  );
}

/** Whether a name has 2 to 255 characters, as Postgres and people count them, not in UTF-16 units. */
export const hasLengthOfName = (name: string): boolean => {
  const { length } = [...name];
  return length >= 2 && length <= 255;
};

/** A name as `shownName` reads it that must be there, with 2 to 255 characters: that of a key or an organization. */
export function requiredName(text: string, param: string): string {
  if (hasLengthOfName(text.normalize().trim())) return shownName(text, param);
  throw invalidValue(param, 'expected 2 to 255 characters, not counting blanks around them');
}
