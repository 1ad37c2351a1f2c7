import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { waitFor } from '../../test/support/wait-for.ts';
import { bytesPerTurn, ReadingTurns } from './reading-turns.ts';

const mebibyte = 1024 * 1024;

test('a turn of the event loop reads little of one user, however many connections bring something, and all of it in the end', async () => {
  const turns = new ReadingTurns();
  const connections = 32;
  let inTurn = 0;
  let all = 0;
  const byTurn: number[] = [];
  const server = createServer((socket: Socket) => {
    socket.on('data', ({ length }) => {
      if (inTurn === 0) setImmediate(endTurn);
      inTurn += length;
      all += length;
      turns.spend('one', length, socket);
    });
  }).listen(0, '127.0.0.1');
  const endTurn = (): void => {
    byTurn.push(inTurn);
    inTurn = 0;
  };
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const clients = Array.from({ length: connections }, () => connect(port, '127.0.0.1'));
  await Promise.all(clients.map((client) => once(client, 'connect')));
  for (const client of clients) client.write(Buffer.alloc(mebibyte));
  await waitFor(() => all === connections * mebibyte, { description: 'all bytes' });
  for (const client of clients) client.destroy();
  server.close();
  // What comes first is read before anybody can be made to wait.
  const later = byTurn.slice(connections);
  expect(later.length).toBeGreaterThan(0);
  expect(Math.max(...later)).toBeLessThan(4 * bytesPerTurn);
});

test('users wait for themselves alone, and nobody who brings little', async () => {
  const turns = new ReadingTurns();
  const reader = () => {
    const state = { isPaused: false };
    return Object.assign(state, { pause: () => (state.isPaused = true), resume: () => (state.isPaused = false) });
  };
  const [large, more, small, other] = [reader(), reader(), reader(), reader()];
  turns.spend('one', 1_000, small);
  turns.spend('one', bytesPerTurn, large);
  turns.spend('one', 1, more);
  turns.spend('another', bytesPerTurn - 1, other);
  expect([small, large, more, other].map(({ isPaused }) => isPaused)).toEqual([false, true, true, false]);
  await waitFor(() => !large.isPaused && !more.isPaused, { description: 'their turn' });
});
