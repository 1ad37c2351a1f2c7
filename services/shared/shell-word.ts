/** A text as one word for a POSIX shell, in single quotes: one inside has to close and reopen them. */
export const shellWord = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
