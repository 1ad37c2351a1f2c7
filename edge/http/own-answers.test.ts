import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { serverOfOwnAnswers } from './own-answers.ts';

const piece = 'a line\r\n';
/** More than the network's own buffers hold. */
const long = Buffer.alloc(24 * 1024 * 1024);

/** What a client that asks by HTTP/1.0 gets: all bytes up to a proper end of the connection; rejects if there is none. */
async function answerTo10(answer: (response: ServerResponse) => void): Promise<string> {
  const server = serverOfOwnAnswers({}, (_request, response) => answer(response)).listen(0, '127.0.0.1');
  await once(server, 'listening');
  try {
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('latin1');
    client.write('GET / HTTP/1.0\r\n\r\n');
    return await text(client);
  } finally {
    server.close();
  }
}

const broken = { code: 'ECONNRESET' };

test('an answer that fails on its way does not look whole to HTTP/1.0 clients, for whom the end of the connection ends it', async () => {
  const failing = answerTo10((response) => response.write(piece, () => response.destroy()));
  await expect(failing).rejects.toMatchObject(broken);
});

test('an answer whose connection is cut off does not look whole to HTTP/1.0 clients either', async () => {
  const cutOff = answerTo10((response) => response.write(piece, () => response.socket!.destroy()));
  await expect(cutOff).rejects.toMatchObject(broken);
  const unsent = answerTo10((response) => {
    response.write(piece);
    response.end(long);
    response.socket!.destroy();
  });
  await expect(unsent).rejects.toMatchObject(broken);
});

test('an answer that is as long as it says, such as a refusal whose body is still coming, is whole wherever its connection ends', async () => {
  const answer = answerTo10((response) => {
    response.setHeader('content-length', piece.length);
    response.write(piece, () => response.destroy());
  });
  expect(await answer).toMatch(/\r\n\r\na line\r\n$/);
});

test('the connection of an HTTP/1.0 client that has ended its side is closed, whatever cuts off the answer', async () => {
  const server = serverOfOwnAnswers({}, ({ socket }, response) => {
    socket.once('end', () => response.destroy());
    response.write(piece);
  }).listen(0, '127.0.0.1');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  client.end('GET / HTTP/1.0\r\n\r\n').resume();
  const [socket] = await accepted;
  await once(socket, 'close');
  server.close();
});

test('a whole answer of any length reaches HTTP/1.0 clients', async () => {
  const answer = await answerTo10((response) => {
    response.write(piece);
    response.end(long);
  });
  expect(answer.slice(answer.indexOf('\r\n\r\n') + 4)).toHaveLength(piece.length + long.length);
});
