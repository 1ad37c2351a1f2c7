import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { waitFor } from '../../test/support/wait-for.ts';
import { serverOfOwnAnswers } from './own-answers.ts';

const closers: (() => unknown)[] = [];
afterEach(() => {
  for (const close of closers.splice(0).reverse()) close();
});

/** Opens connections to a server of these answers, and counts the requests that it is given. */
async function start(answer: RequestListener) {
  const served: string[] = [];
  const server = serverOfOwnAnswers({}, (request, response) => {
    served.push(request.url!);
    answer(request, response);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => server.close());
  const open = (paths: string[]): Socket => {
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setEncoding('latin1');
    socket.on('error', () => {});
    socket.write(requests(paths));
    closers.push(() => socket.destroy());
    return socket;
  };
  return { served, open };
}

const requests = (paths: string[], header = 'accept: */*'): string =>
  paths.map((path) => `GET ${path} HTTP/1.1\r\nhost: x\r\n${header}\r\n\r\n`).join('');

const paths = (count: number): string[] => Array.from({ length: count }, (_, index) => `/${index}`);

test('of the answers that a client asked for at once and does not read, one is held', async () => {
  const answer = Buffer.alloc(1024 * 1024);
  const { served, open } = await start((_request, response) => response.end(answer));
  const unread = open(paths(100));
  await once(unread, 'readable');
  // The network itself holds some.
  for (let other = 0; other < 20; other += 1) await once(open(['/other']), 'readable');
  expect(served.filter((path) => path !== '/other').length).toBeLessThan(50);
  unread.resume();
  await waitFor(() => served.includes('/99'), { description: 'the last request to be served' });
});

test('requests that came at once are answered in their order, each begun when the one before was over', async () => {
  const course: string[] = [];
  const { served, open } = await start((request, response) => {
    course.push(`begin ${request.url}`);
    setImmediate(() => {
      course.push(`end ${request.url}`);
      response.end(`[${request.url}]`);
    });
  });
  const client = open(paths(101));
  let said = '';
  client.on('data', (text) => {
    said += text;
  });
  await waitFor(() => said.includes('[/100]'), { description: 'the last answer' });
  expect(said.match(/\[\/\d+\]/g)).toEqual(paths(101).map((path) => `[${path}]`));
  expect(course).toEqual(served.flatMap((path) => [`begin ${path}`, `end ${path}`]));
});

test.each(['accept: */*', 'expect: 100-continue', 'expect: something'])(
  'a connection of which more than a hundred requests with `%s` wait is closed, and others are served',
  async (header) => {
    const { served, open } = await start((request, response) => {
      if (request.url === '/other') response.end();
    });
    const client = open(['/0']);
    await waitFor(() => served.length === 1, { description: 'the first request to be served' });
    client.write(requests(paths(101), header));
    await once(client.resume(), 'close');
    expect(served).toEqual(['/0']);
    await once(open(['/other']), 'data');
  },
);
