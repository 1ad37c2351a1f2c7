import { invalidRequest } from './errors.ts';

/** Escapes a text for HTML: names come from people, operators and upstreams (security.md, mail injection). */
export const escapeHtml = (text: string): string =>
  text.toWellFormed().replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Takes out what could end a header line or hide text. */
export const oneLine = (text: string): string =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim();

/** Postgres keeps neither a NUL nor half a pair of surrogates in a text, and nobody means one. */
export const isStorableText = (text: string): boolean => !text.includes('\0') && text.isWellFormed();

/** What would make a name read as another in a list or a log: control characters, line breaks, and turns of the writing direction. */
const misleading = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

/** Something to see: neither a blank nor one of the characters that have no width. */
const visible = /[^\s\p{Default_Ignorable_Code_Point}]/u;

/** A name that people are shown, as it is; empty where there is none. @throws GatewayError INVALID_REQUEST that names the field when it could mislead them. */
export function shownName(text: string, param: string): string {
  // A lone surrogate is no character, and cannot be stored.
  if (text === '' || (visible.test(text) && !misleading.test(text) && text.isWellFormed())) return text;
  throw invalidRequest(
    param,
    `Invalid value for \`${param}\`: it shows nothing, or holds a line break or another character that cannot be shown.`,
    'invalid_value',
  );
}
