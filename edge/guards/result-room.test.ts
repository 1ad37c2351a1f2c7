import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import fastify, { type FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { installErrors } from '../http/errors.ts';
import { createEdgeMetrics } from '../http/metrics.ts';
import type { Principal } from '../principal.ts';
import { installAccess } from './access.ts';
import { ResultRoom, refuseLargeAnswers } from './result-room.ts';

const overloaded = expect.objectContaining({ reason: ErrorReason.OVERLOADED });

test('a result that would be the only one is read however large it is, and no other next to it until it is taken', () => {
  const room = new ResultRoom(100);
  const giveBack = room.take('one', 1_000);
  expect(() => room.take('two', 1)).toThrow(overloaded);
  giveBack();
  room.take('two', 1_000);
});

test('results of several users are read up to the room, to the byte', () => {
  const room = new ResultRoom(100);
  room.take('one', 60);
  expect(() => room.take('two', 41)).toThrow(overloaded);
  room.take('two', 40);
  expect(() => room.take('three', 1)).toThrow(overloaded);
});

test('one user’s results are read up to a quarter of the room, to the byte, and others’ in addition', () => {
  const room = new ResultRoom(100);
  const giveBack = room.take('one', 20);
  room.take('one', 5);
  expect(() => room.take('one', 1)).toThrow(overloaded);
  // The only one of its user, and there is room for it.
  room.take('two', 50);
  giveBack();
  room.take('one', 20);
});

describe('a large answer to a GET', () => {
  const bytes = 20 * 1024 * 1024;
  let app: FastifyInstance;
  const taken: Socket[] = [];

  beforeAll(async () => {
    const metrics = createEdgeMetrics(new Registry());
    app = fastify();
    refuseLargeAnswers(app, { resultRoom: new ResultRoom(3 * bytes), metrics });
    installErrors(app);
    const authenticate = (userId: string) => ({ kind: 'session', userId }) as Principal;
    installAccess(app, { authenticate, onEnded: () => () => {}, isFollowed: () => true });
    app.get('/list', { config: { access: { surface: 'session' } } }, () => ({ data: 'x'.repeat(bytes) }));
    await app.listen({ host: '127.0.0.1', port: 0 });
  });
  afterAll(async () => {
    for (const socket of taken) socket.destroy();
    await app.close();
  });

  const list = (userId: string) =>
    fetch(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}/list`, {
      headers: { authorization: `Bearer ${userId}` },
    });
  /** How long the answer is that a user gets and reads. */
  const readBy = async (userId: string): Promise<number> => (await (await list(userId)).text()).length;
  /** Asks for it, and reads nothing but its beginning. */
  async function unread(userId: string): Promise<Socket> {
    const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
    taken.push(socket);
    socket.write(`GET /list HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${userId}\r\n\r\n`);
    await once(socket, 'readable');
    return socket;
  }

  test('is held for a client that does not read it only while there is room, and others are refused with a 503', async () => {
    const slow = await unread('one');
    const refused = await list('one');
    expect(refused.status).toBe(503);
    expect(refused.headers.get('retry-after')).toBe('5');
    expect(await refused.json()).toMatchObject({ error: { code: 'server_is_overloaded' } });
    expect(await readBy('two')).toBeGreaterThan(bytes);
    slow.destroy();
    await waitFor(async () => (await readBy('one')) > bytes, { description: 'room for another answer' });
  });

  test('takes no room once it has been read', async () => {
    for (let count = 0; count < 4; count += 1) expect(await readBy('three')).toBeGreaterThan(bytes);
  });
});
