/** A LIKE pattern for "contains this text": wildcards in the text stand for themselves (security.md, LIKE wildcards). */
export const containing = (text: string): string => `%${text.replace(/[\\%_]/g, '\\$&')}%`;
