import { createHash } from 'node:crypto';
import { isIPv4 } from 'node:net';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { MailStatus } from '#gen/modelgateway/auth/v1/mail_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { SecretBox } from '#shared/secret-box.ts';
import { MailEntity } from '../db/mail.entity.ts';

/** A mail to be sent. */
export type NewMail = {
  /** A second mail with the same key is dropped. */
  dedupeKey: string;
  messageId?: string;
  kind: string;
  toEmail: string;
  toUserId?: string;
  subject: string;
  text: string;
  html: string;
  /** Whether the body holds a one-time token, which no list shows. */
  secret: boolean;
  sendAfter?: Date;
  expiresAt?: Date;
};

export type MailBody = { text: string; html: string };

type StoredMail = { id: string; sealedBody?: Uint8Array | null };

/** Holds mails until the mail server has accepted them. */
export type MailOutbox = {
  /** Stores mails in the transaction of their subject; returns how many were new. */
  enqueue(em: SqlEntityManager, mails: readonly NewMail[]): Promise<number>;
  /** The body of a stored mail; null when it is no longer kept, or no secret opens it. */
  open(mail: StoredMail): MailBody | null;
  /**
   * The body as operators may see it; null for one with a one-time token, with which they could become somebody else. Without a mail server
   * operators deliver the mail themselves, so they see everything (decisions.md, Running it).
   */
  shownToOperators(mail: StoredMail & { secret: boolean }): MailBody | null;
};

export function createMailOutbox(deps: {
  clock: Clock;
  secretBox: SecretBox;
  publicUrl: string;
  /** Whether mails leave by SMTP. */
  isSent: boolean;
}): MailOutbox {
  const { clock, secretBox, publicUrl, isSent } = deps;
  const context = (id: string): string => `mail ${id}`;
  const open = ({ id, sealedBody }: StoredMail): MailBody | null => {
    const body = sealedBody == null ? null : secretBox.open(sealedBody, context(id));
    return body === null ? null : (JSON.parse(body.toString()) as MailBody);
  };
  return {
    open,
    shownToOperators: (stored) => (stored.secret && isSent ? null : open(stored)),
    async enqueue(em, mails) {
      const now = new Date(clock.now());
      const rows = mails.map(({ text, html, ...mail }) => {
        const id = uuidv7();
        const body: MailBody = { text, html };
        return {
          ...mail,
          id,
          messageId: mail.messageId || messageIdOf(mail.dedupeKey, publicUrl),
          sealedBody: secretBox.seal(Buffer.from(JSON.stringify(body)), context(id)),
          status: MailStatus.QUEUED,
          createdAt: now,
          nextAttemptAt: mail.sendAfter ?? now,
        };
      });
      const insert = em.createQueryBuilder(MailEntity).insert(rows).onConflict('dedupeKey').ignore().returning('id');
      return (await insert.execute('all')).length;
    },
  };
}

/**
 * A Message-ID (RFC 5322 section 3.6.4, without its brackets) derived from what the mail is about, so that a mail sent again after a crash
 * can be recognised as the same.
 */
const messageIdOf = (dedupeKey: string, publicUrl: string): string =>
  `${createHash('sha256').update(dedupeKey).digest('hex').slice(0, 40)}@${mailDomain(publicUrl)}`;

/** The host of PUBLIC_URL as addresses of mail have it: an IP address as a literal (RFC 5321 section 4.1.3). */
export function mailDomain(publicUrl: string): string {
  const { hostname } = new URL(publicUrl);
  if (isIPv4(hostname)) return `[${hostname}]`;
  return hostname.replace(/^\[/, '[IPv6:');
}
