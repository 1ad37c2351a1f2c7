/** Escapes a text for HTML: names come from people, operators and upstreams (security.md, mail injection). */
export const escapeHtml = (text: string): string =>
  text.toWellFormed().replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

/** Takes out what could end a header line or hide text. */
export const oneLine = (text: string): string =>
  text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .trim();
