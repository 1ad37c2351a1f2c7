import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { fastify } from 'fastify';
import { afterEach, expect, test } from 'vitest';
import { cutOffSlowBodies, headTimeouts, type Patience, patience } from './slow-clients.ts';

/** A fiftieth of the real one. */
const short: Patience = { ...patience, headMs: patience.headMs / 50, checkMs: patience.checkMs / 50 };

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function start() {
  const app = fastify({ http: headTimeouts(short) });
  cutOffSlowBodies(app, short);
  app.post('/', async (request) => ({ length: JSON.stringify(request.body).length }));
  await app.listen({ port: 0, host: '127.0.0.1' });
  closers.push(() => app.close());
  const { port } = app.server.address() as AddressInfo;
  return (first: string): Socket => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => {});
    socket.resume();
    socket.write(first);
    closers.push(() => socket.destroy());
    return socket;
  };
}

const head = (length: number): string =>
  `POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;

test.each([
  ['head', 'POST / HTTP/1.1\r\nx'],
  ['body', `${head(100_000)}{`],
  ['connection', ''],
])('two hundred clients whose %s trickles are cut off, while others are served', async (_what, first) => {
  const open = await start();
  const trickling = Array.from({ length: 200 }, () => open(first));
  // A connection may be reset: `once` of node:events would take that for a failure.
  const closed = Promise.all(trickling.map((socket) => new Promise((resolve) => socket.once('close', resolve))));
  const trickle = setInterval(() => {
    if (first !== '') for (const socket of trickling) if (socket.writable) socket.write('a');
  }, 200);
  closers.push(() => clearInterval(trickle));
  const other = open(`${head(2)}{}`);
  const [answer] = (await once(other, 'data')) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 200 /);
  await closed;
});

test('a steady upload may take its time, and an idle connection is kept for the next request', async () => {
  const open = await start();
  const idle = open(`${head(2)}{}`);
  await once(idle, 'data');
  const body = JSON.stringify({ text: 'x'.repeat(3_000) });
  const slow = open(head(body.length));
  const answered = once(slow, 'data');
  // Twice as long as what trickles is borne.
  const pieces = 2 * short.slowChecksMax * 2;
  for (let piece = 0; piece < pieces; piece++) {
    slow.write(body.slice((piece * body.length) / pieces, ((piece + 1) * body.length) / pieces));
    await delay(short.checkMs / 2);
  }
  expect(String((await answered)[0])).toMatch(/^HTTP\/1\.1 200 /);
  idle.write(`${head(2)}{}`);
  expect(String((await once(idle, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
});
