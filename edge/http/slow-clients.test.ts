import { once } from 'node:events';
import type { RequestListener, ServerOptions } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setTimeout as delay, setImmediate as immediate } from 'node:timers/promises';
import { fastify } from 'fastify';
import { afterEach, expect, test } from 'vitest';
import { startTestGateway } from '../../test/support/gateway.ts';
import { edgeServer } from '../../test/support/routes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { serverOfOwnAnswers } from './own-answers.ts';
import { type ClientTimeouts, clientTimeouts, cutOffSlowClients, headTimeouts } from './slow-clients.ts';
import { answerUnparsable } from './socket-errors.ts';

/** A fiftieth of the real one. */
const short: ClientTimeouts = {
  ...clientTimeouts,
  headMs: clientTimeouts.headMs / 50,
  checkMs: clientTimeouts.checkMs / 50,
  stalledMs: clientTimeouts.stalledMs / 50,
  endedMs: clientTimeouts.endedMs / 50,
};
/** More than the network's own buffers hold. */
const long = Buffer.alloc(24 * 1024 * 1024);

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close();
});

async function* pieces() {
  for (let sent = 0; sent < long.length; sent += 64 * 1024) yield long.subarray(sent, sent + 64 * 1024);
}

/** The server's ends of the connections, in order. */
let accepted: Socket[];

async function start(options: ServerOptions = {}, timeouts = short) {
  const serverFactory = (handler: RequestListener) =>
    serverOfOwnAnswers({ ...headTimeouts(timeouts), ...options }, handler);
  const app = fastify({ serverFactory, clientErrorHandler: answerUnparsable, bodyLimit: long.length });
  cutOffSlowClients(app, timeouts);
  app.post('/', async (request) => ({ length: JSON.stringify(request.body).length }));
  app.addContentTypeParser('text/held', async (_request: unknown, body: Readable) => {
    await delay(2 * short.slowChecksMax * short.checkMs);
    return text(body);
  });
  app.get('/long', async () => long);
  app.get('/stream', (_request, reply) => reply.send(Readable.from(pieces())));
  app.get('/late', async () => delay(2 * short.stalledMs, 'late'));
  await app.listen({ port: 0, host: '127.0.0.1' });
  closers.push(() => app.close());
  accepted = [];
  app.server.on('connection', (socket: Socket) => accepted.push(socket));
  const { port } = app.server.address() as AddressInfo;
  const open = (first: string, options = {}): Socket => {
    const socket = connect({ port, host: '127.0.0.1', ...options });
    socket.on('error', () => {});
    socket.resume();
    socket.write(first);
    closers.push(() => socket.destroy());
    return socket;
  };
  return Object.assign(open, { server: app.server });
}

const head = (length: number): string =>
  `POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;

test('two thousand clients whose heads, bodies or connections trickle are cut off, while others are served', async () => {
  const open = await start();
  const firsts = ['POST / HTTP/1.1\r\nx', `${head(100_000)}{`, ''];
  const slow: Socket[] = [];
  while (slow.length < 2_000) {
    slow.push(open(firsts[slow.length % 3]!));
    // More than the backlog holds would only seem connected to themselves: a silent one would never be accepted or closed.
    if (slow.length % 100 === 0) await waitFor(() => !slow.at(-1)!.connecting, { description: 'a connection' });
  }
  const trickling = slow.filter((_, index) => firsts[index % 3] !== '');
  const trickle = setInterval(() => {
    for (const socket of trickling) if (socket.writable) socket.write('a');
  }, 200);
  closers.push(() => clearInterval(trickle));
  // On a busy machine a fast client may be taken for a slow one too, and tries again.
  const isServed = () =>
    new Promise<boolean>((resolve) => {
      const quick = open(`${head(2)}{}`);
      quick.once('data', (answer) => resolve(String(answer).startsWith('HTTP/1.1 200 ')));
      quick.once('close', () => resolve(false));
    });
  await waitFor(isServed, { description: 'a quick client to be served' });
  await waitFor(() => slow.every(({ destroyed }) => destroyed), {
    description: 'the slow ones to be cut off',
    timeoutMs: 60_000,
  });
});

test('a steady upload may take its time, and an idle connection is kept for the next request', async () => {
  const open = await start();
  const idle = open(`${head(2)}{}`);
  await once(idle, 'data');
  const body = JSON.stringify({ text: 'x'.repeat(3_000) });
  const slow = open(head(body.length));
  const answered = once(slow, 'data');
  // Twice as long as a trickle is tolerated.
  const pieces = 2 * short.slowChecksMax * 2;
  for (let piece = 0; piece < pieces; piece++) {
    slow.write(body.slice((piece * body.length) / pieces, ((piece + 1) * body.length) / pieces));
    await delay(short.checkMs / 2);
  }
  expect(String((await answered)[0])).toMatch(/^HTTP\/1\.1 200 /);
  idle.write(`${head(2)}{}`);
  expect(String((await once(idle, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
});

test('a request that came while the process stood still is served, however long that was', async () => {
  const open = await start();
  const client = open('');
  await waitFor(() => accepted.length === 1, { description: 'the connection to be accepted' });
  // What is due next is what the process is waiting for longest: its timers.
  await immediate();
  client.write(`${head(2)}{}`);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * short.headMs);
  expect(String((await once(client, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
});

test('so is one on a connection that was kept for it, though the time for which it is kept has passed meanwhile', async () => {
  const keepAliveTimeout = 100;
  const open = await start({ keepAliveTimeout, keepAliveTimeoutBuffer: 0 });
  const client = open(`${head(2)}{}`);
  await once(client, 'data');
  await immediate();
  client.write(`${head(2)}{}`);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * keepAliveTimeout);
  expect(String((await once(client, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
  await once(client, 'close');
});

test('an idle connection is closed in time, also if it is kept for as long as a client may take nothing of its answer', async () => {
  const keepAliveTimeout = 100;
  const open = await start(
    { keepAliveTimeout, keepAliveTimeoutBuffer: 0 },
    { ...short, stalledMs: keepAliveTimeout, checkMs: 10 },
  );
  open(`${head(2)}{}`);
  await waitFor(() => accepted[0]?.destroyed, { description: 'the connection to be closed' });
});

test('an upload that is not read meanwhile, as while the disk stalls, is not cut off', async () => {
  const open = await start();
  const held = open(`POST / HTTP/1.1\r\nhost: x\r\ncontent-type: text/held\r\ncontent-length: ${long.length}\r\n\r\n`);
  held.write(long);
  expect(String((await once(held, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 /);
});

const get = (path: string): string => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;

test.each(['/long', '/stream'])('a client that reads nothing of its answer is cut off: %s', async (path) => {
  const open = await start();
  const stalled = open(get(path)).pause();
  // That it was cut off can only be read after what the network holds.
  const closed = once(stalled, 'close');
  await waitFor(() => accepted[0]!.destroyed, { description: 'the connection to be closed' });
  stalled.resume();
  await closed;
  expect(stalled.bytesRead).toBeLessThan(long.length);
});

test('a client that reads nothing of what its WebSocket brings is cut off, also if what it sends is not read meanwhile', async () => {
  const open = await start();
  open.server.on('upgrade', (_request, socket) =>
    socket
      .on('error', () => {})
      .pause()
      .write(long),
  );
  open('GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n').pause();
  await waitFor(() => accepted[0]?.destroyed, { description: 'the connection to be closed', timeoutMs: 5_000 });
});

test('a client that reads its answer slowly gets all of it, and its connection is then kept for the next request', async () => {
  const open = await start();
  const slow = open(get('/long'));
  slow.on('data', () => {
    slow.pause();
    setTimeout(() => slow.resume(), (3 * short.stalledMs * 64 * 1024) / long.length);
  });
  await waitFor(() => slow.bytesRead > long.length, { description: 'all of the answer', timeoutMs: 60_000 });
  slow.write(get('/late'));
  const length = slow.bytesRead;
  await waitFor(() => slow.bytesRead > length, { description: 'the late answer' });
});

test('an answer that a shutdown first spares and then cuts off does not look whole to HTTP/1.0 clients', async () => {
  const open = await start();
  const slow = open('GET /stream HTTP/1.0\r\n\r\n').pause();
  await waitFor(() => accepted[0]?.writableLength, { description: 'an answer that waits for its reader' });
  open.server.closeIdleConnections();
  expect(accepted[0]!.destroyed).toBe(false);
  open.server.closeAllConnections();
  slow.resume();
  await expect(once(slow, 'close')).rejects.toMatchObject({ code: 'ECONNRESET' });
});

test('a client that is refused an upgrade cannot keep its connection', async () => {
  const open = await start();
  open.server.on('upgrade', (_request, socket) => socket.end('HTTP/1.1 401 Unauthorized\r\n\r\n'));
  open('GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n', { allowHalfOpen: true });
  await waitFor(() => accepted[0]?.destroyed === true, { description: 'the connection to be closed' });
});

test('the edge allows 20 s for a head and ten minutes for a whole request', async () => {
  const { headersTimeout, requestTimeout } = await edgeServer();
  expect({ headersTimeout, requestTimeout }).toEqual({ headersTimeout: 20_000, requestTimeout: 600_000 });
});

test('an idle connection is kept for KEEP_ALIVE_SECONDS, and its client is told so', async () => {
  await using gateway = await startTestGateway({ env: { KEEP_ALIVE_SECONDS: '1' } });
  const idle = connect(Number(new URL(gateway.url).port), '127.0.0.1');
  const closed = once(idle, 'close');
  idle.write(get('/healthz'));
  expect(String((await once(idle, 'data'))[0])).toMatch(/^HTTP\/1\.1 200 .*\r\nKeep-Alive: timeout=1\r\n/s);
  await closed;
});
