/** A LIKE pattern for "contains this text", composed as names are: wildcards stand for themselves (security.md, LIKE wildcards). */
export const containing = (text: string): string => `%${text.normalize().replace(/[\\%_]/g, '\\$&')}%`;
