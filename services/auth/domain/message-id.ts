import { createHash } from 'node:crypto';

/**
 * A Message-ID (RFC 5322 section 3.6.4, without its brackets) derived from what the mail is about, so that a mail sent again after a crash
 * can be recognised as the same.
 */
export const messageIdOf = (dedupeKey: string, publicUrl: string): string =>
  `${createHash('sha256').update(dedupeKey).digest('hex').slice(0, 40)}@${new URL(publicUrl).hostname}`;
