/** JSON in which nothing misleads who reads it on a terminal; `JSON.stringify` escapes what comes before a space. */
export const readableJson = (json: string): string =>
  json.replace(
    /[\x7f-\x9f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
