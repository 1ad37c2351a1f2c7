import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { mailDomain } from './outbox.ts';
import { createSmtp } from './smtp.ts';

/** A mail server that takes mails; its answer to the text of the first one never ends if it is `endless`. */
async function startMailServer({ endless: isEndless = false } = {}) {
  const texts: string[] = [];
  let received = '';
  const server = createServer((socket) => {
    let isText = false;
    let endless: NodeJS.Timeout | undefined;
    socket.on('error', () => {});
    socket.on('close', () => clearInterval(endless));
    socket.write('220 hello\r\n');
    socket.on('data', (data) => {
      const text = data.toString();
      received += isText ? text : '';
      if (isText && !text.endsWith('\r\n.\r\n')) return;
      if (isText) texts.push(received);
      received = '';
      if (isEndless && isText && texts.length === 1) {
        endless = setInterval(() => socket.write('250-still reading\r\n'), 10);
        return;
      }
      isText = text.startsWith('DATA');
      socket.write(isText ? '354 go on\r\n' : '250 fine\r\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `smtp://127.0.0.1:${port}`, texts, [Symbol.dispose]: () => void server.close() };
}

/** Of a gateway that does not stop. */
const going = new AbortController().signal;

test('a mail server whose answer never ends is given up, and takes the next mail', async () => {
  using server = await startMailServer({ endless: true });
  const smtp = createSmtp(server.url, 'gateway@example.com', 2_000);
  const send = (messageId: string) =>
    smtp.send(
      { toEmail: 'reader@example.com', subject: 'A model retires', messageId },
      { text: 'Soon.', html: '' },
      going,
    );
  await expect(send('first')).rejects.toThrow('The mail server did not take the mail within 2 s.');
  await send('second');
  smtp.close();
});

test('no name in a subject is decoded to another one', async () => {
  using server = await startMailServer();
  const smtp = createSmtp(server.url, 'gateway@example.com');
  const subject = 'You are invited to =?utf-8?Q?=48ello?=';
  await smtp.send({ toEmail: 'reader@example.com', subject, messageId: 'named' }, { text: 'Soon.', html: '' }, going);
  smtp.close();
  const folded = /^Subject: (.*(?:\r\n .*)*)/m.exec(server.texts[0]!)![1]!;
  const words = folded.replaceAll('\r\n', '').replace(/=\?UTF-8\?Q\?(.*?)\?=\s*/g, '$1');
  const decoded = decodeURIComponent(words.replaceAll('_', ' ').replace(/=([0-9A-F]{2})/g, '%$1'));
  expect(decoded.replaceAll('\u2060', '')).toBe(subject);
});

test.each([
  ['https://gateway.example:8443', 'gateway.example'],
  ['http://10.0.0.5:8080', '[10.0.0.5]'],
  ['http://[2001:db8::1]', '[IPv6:2001:db8::1]'],
])('the addresses of mail from %s end in %s', (publicUrl, domain) => {
  expect(mailDomain(publicUrl)).toBe(domain);
});
