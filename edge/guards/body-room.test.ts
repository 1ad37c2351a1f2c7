import { once } from 'node:events';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as turnEnd } from 'node:timers/promises';
import fastify, { type FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { bodiesMemory } from '#shared/memory-share.ts';
import { post, posting } from '../fixtures/posting.ts';
import { inferenceBytesMax, managementBodies, rawJsonBodies } from '../http/bodies.ts';
import { installErrors } from '../http/errors.ts';
import { createEdgeMetrics } from '../http/metrics.ts';
import type { Principal } from '../principal.ts';
import { type Credentials, installAccess } from './access.ts';
import { BodyRoom, bodyRooms, shedBodies } from './body-room.ts';

const somebody = { kind: 'session', userId: 'somebody', tenantSuspended: false } as Principal;

test('bodies take room, and return it', () => {
  const room = new BodyRoom(1024 ** 2);
  expect(room.take('one', 600_000)).toBe(true);
  expect(room.take('another', 600_000)).toBe(false);
  expect(room.take('another', 300_000)).toBe(true);
  room.giveBack('one', 600_000);
  expect(room.take('one', 550_000)).toBe(true);
});

test('a body of the largest size has room however little memory there is', () => {
  const room = new BodyRoom(bodiesMemory(64 * 1024 ** 2));
  expect(room.take('one', inferenceBytesMax)).toBe(true);
  expect(room.take('one', inferenceBytesMax)).toBe(false);
});

test('one user’s bodies take at most three times what they leave to others', () => {
  const room = new BodyRoom(1024 ** 2);
  const taken = (whose: string): number => {
    let count = 0;
    while (room.take(whose, 1024)) count += 1;
    return count;
  };
  expect([taken('one'), taken('another'), taken('a third'), taken('one')]).toEqual([768, 192, 48, 0]);
  for (let count = 0; count < 768; count += 1) room.giveBack('one', 1024);
  expect([taken('another'), taken('one')]).toEqual([540, 183]);
});

const path = '/v1/chat/completions';

/** An app whose callers are determined by `authenticate`. */
async function listen({
  bytesMax = 1024 ** 2,
  authenticate = () => somebody,
}: {
  bytesMax?: number;
  authenticate?: Credentials['authenticate'];
} = {}): Promise<{ app: FastifyInstance; users: BodyRoom }> {
  const rooms = bodyRooms(bytesMax);
  const app = fastify();
  installErrors(app);
  installAccess(app, { authenticate, onEnded: () => () => {}, isFollowed: () => true });
  shedBodies(app, { rooms, metrics: createEdgeMetrics(new Registry()) });
  const work = { access: { surface: 'session' }, startsWork: true } as const;
  await app.register(async (raw: FastifyInstance) => {
    rawJsonBodies(raw, 1024 ** 2);
    // As calls of models are answered.
    raw.post(path, { config: work }, (_request, reply) => {
      reply.hijack();
      reply.raw.end('taken on');
    });
    raw.put('/settings', { config: { access: { surface: 'session' } } }, () => 'changed');
    raw.post('/events', { config: { access: { surface: 'public' } } }, () => 'received');
  });
  await app.register(async (management: FastifyInstance) => {
    managementBodies(management);
    management.post('/jobs', { config: work, bodyLimit: 128 * 1024, schema: { body: {} } }, () => 'queued');
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  return { app, users: rooms.users };
}

test('the room of a body is returned when its request is over', async () => {
  const { app } = await listen();
  for (let count = 0; count < 5; count += 1) expect(await post(app, path, 700_000)).toBe(200);
  await app.close();
});

test('a body of unknown length takes the room of the largest that its endpoint accepts', async () => {
  const { app } = await listen();
  const { port } = app.server.address() as AddressInfo;
  const headers = {
    authorization: 'Bearer somebody',
    'content-type': 'application/json',
    'transfer-encoding': 'chunked',
  };
  const statusOf = async (path: string): Promise<number> => {
    const [response] = await once(request({ port, method: 'POST', path, headers }).end('{}'), 'response');
    return response.resume().statusCode;
  };
  expect([await statusOf(path), await statusOf('/jobs')]).toEqual([503, 200]);
  await app.close();
});

test('a user who announces bodies and sends nothing shuts out only themselves', async () => {
  const { app } = await listen({ authenticate: (userId) => ({ ...somebody, userId }) });
  const announced = Array.from({ length: 32 }, () => posting(app, path, 65_536, 'idle').on('error', () => {}));
  const refusals = announced.map((sent) => once(sent, 'response'));
  for (const sent of announced) sent.flushHeaders();
  await Promise.race(refusals);
  expect(await post(app, path, 65_536, 'idle')).toBe(503);
  expect(await post(app, path, 150_000, 'another')).toBe(200);
  for (const sent of announced) sent.destroy();
  await app.close();
});

test('a body that starts no work takes room until it has been answered, whatever its method', async () => {
  const { app, users } = await listen();
  const answered = Promise.withResolvers<number>();
  const sent = posting(app, '/settings', 700_000, 'somebody', 'PUT')
    .once('response', (response) => answered.resolve(response.resume().statusCode!))
    .on('error', answered.reject);
  sent.write('x');
  await once(app.server, 'request');
  expect(users.take('somebody', 700_000)).toBe(false);
  sent.end('x'.repeat(699_999));
  expect(await answered.promise).toBe(200);
  expect(users.take('somebody', 700_000)).toBe(true);
  await app.close();
});

test('bodies of requests without a credential share an eighth of the memory, beside that of users', async () => {
  const { app, users } = await listen();
  const sent = posting(app, '/events', 90_000).on('error', () => {});
  sent.flushHeaders();
  await once(app.server, 'request');
  expect(await post(app, '/events', 90_000)).toBe(503);
  expect(await post(app, '/events', 65_000)).toBe(200);
  expect(users.take('somebody', 786_432)).toBe(true);
  sent.destroy();
  await app.close();
});

test('a refused request returns its room at once, though the rest of its body is still to come, and only once', async () => {
  const { app, users } = await listen({ bytesMax: 2 * 1024 ** 2 });
  const bytes = 1_100_000;
  const sent = posting(app, path, bytes).on('error', () => {});
  sent.flushHeaders();
  const [[, answer], [response]] = await Promise.all([once(app.server, 'request'), once(sent, 'response')]);
  expect(response.statusCode).toBe(413);
  expect(users.take('somebody', bytes)).toBe(true);
  sent.destroy();
  await once(answer, 'close');
  expect(users.take('another', bytes)).toBe(false);
  await app.close();
});

test('a body whose client leaves before being identified takes no room', async () => {
  const known = Promise.withResolvers<Principal>();
  const { app, users } = await listen({ authenticate: () => known.promise });
  const sent = posting(app, path, 700_000).on('error', () => {});
  sent.flushHeaders();
  const [, response] = await once(app.server, 'request');
  sent.destroy();
  await once(response, 'close');
  known.resolve(somebody);
  await turnEnd();
  expect(users.take('somebody', 700_000)).toBe(true);
  await app.close();
});
