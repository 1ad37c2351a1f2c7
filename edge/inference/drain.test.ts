import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { drained } from './drain.ts';

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A response whose client does not read, written to until it is full. */
async function fullResponse() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  closers.push(() => {
    client.destroy();
    server.close();
  });
  client.on('error', () => {});
  client.pause();
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  const piece = Buffer.alloc(1024 * 1024);
  // What the network's own buffers hold counts as sent; after that nothing drains any more.
  let isFull = false;
  while (!isFull) {
    response.write(piece);
    isFull = await Promise.race([once(response, 'drain').then(() => false), delay(100, true)]);
  }
  return { client, response };
}

test('a client that reads slowly is waited for', async () => {
  const { client, response } = await fullResponse();
  client.on('data', () => {
    client.pause();
    setTimeout(() => client.resume(), 5);
  });
  client.resume();
  await drained(response, new AbortController().signal);
  expect(response.destroyed).toBe(false);
});

test('a client that resumes reading continues', async () => {
  const { client, response } = await fullResponse();
  const waiting = drained(response, new AbortController().signal);
  client.resume();
  await waiting;
  expect(response.destroyed).toBe(false);
});

test('a client that has gone is no longer waited for', async () => {
  const { response } = await fullResponse();
  const gone = new AbortController();
  const waiting = drained(response, gone.signal);
  gone.abort();
  await expect(waiting).resolves.toBeUndefined();
  await expect(drained(response, gone.signal)).resolves.toBeUndefined();
  // Nor is it cut off: that is for clients that stay and read nothing (edge/http/slow-clients.ts).
  expect(response.destroyed).toBe(false);
});
