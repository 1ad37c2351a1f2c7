import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { createSmtp } from './smtp.ts';

/** A mail server whose answer to the text of the first mail never ends; it takes the others. */
async function startEndlessMailServer() {
  let texts = 0;
  const server = createServer((socket) => {
    let isText = false;
    let endless: NodeJS.Timeout | undefined;
    socket.on('error', () => {});
    socket.on('close', () => clearInterval(endless));
    socket.write('220 hello\r\n');
    socket.on('data', (data) => {
      const text = data.toString();
      if (isText && !text.endsWith('\r\n.\r\n')) return;
      if (isText && ++texts === 1) {
        endless = setInterval(() => socket.write('250-still reading\r\n'), 10);
        return;
      }
      isText = text.startsWith('DATA');
      socket.write(isText ? '354 go on\r\n' : '250 fine\r\n');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `smtp://127.0.0.1:${port}`, [Symbol.dispose]: () => void server.close() };
}

test('a mail server whose answer never ends is given up, and takes the next mail', async () => {
  using server = await startEndlessMailServer();
  const smtp = createSmtp(server.url, 'gateway@example.com', 2_000);
  const send = (messageId: string) =>
    smtp.send({ toEmail: 'reader@example.com', subject: 'A model retires', messageId }, { text: 'Soon.', html: '' });
  await expect(send('first')).rejects.toThrow('The mail server did not take the mail within 2 s.');
  await send('second');
  smtp.close();
});
