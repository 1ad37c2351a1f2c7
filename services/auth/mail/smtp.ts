import { createTransport } from 'nodemailer';
import type { MailRow } from '../db/mail.entity.ts';
import type { MailBody } from './outbox.ts';

/** Hands mails to the mail server. */
type Smtp = {
  /** Gives up once `stopping` aborts. @throws SendingError */
  send(mail: Pick<MailRow, 'toEmail' | 'subject' | 'messageId'>, body: MailBody, stopping: AbortSignal): Promise<void>;
  close(): void;
};

/** The most mails handed over at the same time. */
export const connectionsMax = 2;
/** How long the mail server may say nothing, in milliseconds. */
const timeoutMs = 15_000;
/** How long it may take to take a mail, whatever it says meanwhile, in milliseconds: an answer may have lines without end. */
export const sendingMsMax = 240_000;

/** `url` is SMTP_URL; `from` the sender's address, unless the URL has another one in `?from=`. */
export function createSmtp(url: string, from: string, wholeMsMax: number = sendingMsMax): Smtp {
  const transport = createTransport({
    url,
    pool: true,
    maxConnections: connectionsMax,
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    // Bodies are our own texts; nothing in them can make the gateway read a file or fetch a URL.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const sender = new URL(url).searchParams.get('from') ?? from;
  return {
    async send({ toEmail, subject, messageId }, { text, html }, stopping) {
      const tooLong = AbortSignal.timeout(wholeMsMax);
      const sending = transport.sendMail({
        signal: AbortSignal.any([tooLong, stopping]),
        from: sender,
        to: { name: '', address: toEmail },
        // Otherwise ASCII is sent as it is, and a name could be an encoded word (RFC 2047), which readers decode.
        subject: subject.replaceAll('=?', '=\u2060?'),
        messageId: `<${messageId}>`,
        text,
        ...(html !== '' && { html }),
        // RFC 3834 section 5: no out-of-office answers.
        headers: { 'Auto-Submitted': 'auto-generated' },
      });
      await sending.catch((error) => {
        if (stopping.aborted) throw new Error('The mail server did not take the mail before the gateway stopped.');
        if (tooLong.aborted) throw new Error(`The mail server did not take the mail within ${wholeMsMax / 1000} s.`);
        throw error;
      });
    },
    close: () => transport.close(),
  };
}
