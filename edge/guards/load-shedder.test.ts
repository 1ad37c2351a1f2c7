import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as turnEnd } from 'node:timers/promises';
import { promisify } from 'node:util';
import fastify, { type FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { bodiesMemory } from '#shared/memory-share.ts';
import { inferenceBytesMax, rawJsonBodies } from '../http/bodies.ts';
import { installErrors } from '../http/errors.ts';
import { createEdgeMetrics } from '../http/metrics.ts';
import type { Principal } from '../principal.ts';
import { type Credentials, installAccess } from './access.ts';
import { LoadShedder, shedBodies, sheddingLoad } from './load-shedder.ts';

const somebody = { kind: 'session', userId: 'somebody', tenantSuspended: false } as Principal;
const memory = { bodiesMax: 1024 ** 2, heapIsFull: () => false };

/** A loop whose turns serve requests for as long as the test says. */
function loop(given: Partial<typeof memory> = {}) {
  let nowMs = 1_000;
  const shedder = new LoadShedder(() => nowMs, { ...memory, ...given });
  const wait = (ms: number): void => {
    nowMs += ms;
  };
  return {
    shedder,
    wait,
    /**
     * One turn with a request every `stepMs`; returns how many were accepted, and how many were refused for lack of time. `workMs` follow
     * the last.
     */
    async turn(requests: number, stepMs: number, workMs = 0) {
      const answers = { taken: 0, refused: 0 };
      for (let request = 0; request < requests; request += 1) {
        const shortage = shedder.shortage();
        if (shortage === undefined) answers.taken += 1;
        else if (shortage === 'time') answers.refused += 1;
        wait(stepMs);
      }
      wait(workMs);
      await turnEnd();
      return answers;
    },
  };
}

test('a full loop refuses nobody while turns are short', async () => {
  const { turn } = loop();
  for (let count = 0; count < 50; count += 1) expect(await turn(99, 1)).toEqual({ taken: 99, refused: 0 });
});

test('one long pause refuses nobody, and neither do pauses with idle time between them', async () => {
  const { turn, wait } = loop();
  for (let count = 0; count < 2; count += 1) await turn(99, 1);
  expect(await turn(20, 50)).toEqual({ taken: 20, refused: 0 });
  expect(await turn(10, 1)).toEqual({ taken: 10, refused: 0 });
  for (let count = 0; count < 10; count += 1) {
    expect(await turn(60, 5)).toEqual({ taken: 60, refused: 0 });
    wait(50);
  }
});

test('turns that stay too long are overload: each accepts what arrives in its first 25 ms, until nothing had to be refused for a second', async () => {
  const { turn, wait } = loop();
  for (let ms = 0; ms < 400; ms += 200) expect((await turn(200, 1)).refused).toBe(0);
  await turn(200, 1);
  // 26 in each round of 101: libuv may put what arrives over seconds into one turn.
  expect(await turn(202, 1)).toEqual({ taken: 52, refused: 150 });
  // Turns have only become shorter because of the refusals.
  expect(await turn(90, 1)).toEqual({ taken: 26, refused: 64 });
  expect(await turn(26, 1)).toEqual({ taken: 26, refused: 0 });
  wait(900);
  expect(await turn(90, 1)).toEqual({ taken: 26, refused: 64 });
  wait(1_100);
  expect(await turn(90, 1)).toEqual({ taken: 90, refused: 0 });
});

test('a turn that works for too long after its last request counts as too long', async () => {
  const { turn } = loop();
  expect(await turn(60, 0, 300)).toEqual({ taken: 60, refused: 0 });
  expect((await turn(60, 5)).refused).toBeGreaterThan(0);
});

test('bodies take room, and return it', () => {
  const { shedder } = loop();
  expect(shedder.bodies.take('one', 600_000)).toBe(true);
  expect(shedder.bodies.take('another', 600_000)).toBe(false);
  expect(shedder.bodies.take('another', 300_000)).toBe(true);
  shedder.bodies.giveBack('one', 600_000);
  expect(shedder.bodies.take('one', 550_000)).toBe(true);
});

test('a body of the largest size has room however little memory there is', () => {
  const { shedder } = loop({ bodiesMax: bodiesMemory(64 * 1024 ** 2) });
  expect(shedder.bodies.take('one', inferenceBytesMax)).toBe(true);
  expect(shedder.bodies.take('one', inferenceBytesMax)).toBe(false);
});

test('one user’s bodies take at most three times what they leave to others', () => {
  const { shedder } = loop();
  const taken = (whose: string): number => {
    let count = 0;
    while (shedder.bodies.take(whose, 1024)) count += 1;
    return count;
  };
  expect([taken('one'), taken('another'), taken('a third'), taken('one')]).toEqual([768, 192, 48, 0]);
  for (let count = 0; count < 768; count += 1) shedder.bodies.giveBack('one', 1024);
  expect([taken('another'), taken('one')]).toEqual([540, 183]);
});

test('a heap that is nearly full refuses new work until it no longer is, except one request per 100 ms', () => {
  let isFull = true;
  const { shedder, wait } = loop({ heapIsFull: () => isFull });
  expect(shedder.shortage()).toBeUndefined();
  expect([shedder.shortage(), shedder.shortage()]).toEqual(['memory', 'memory']);
  wait(101);
  expect([shedder.shortage(), shedder.shortage()]).toEqual([undefined, 'memory']);
  isFull = false;
  wait(101);
  expect([shedder.shortage(), shedder.shortage()]).toEqual([undefined, undefined]);
});

const path = '/v1/chat/completions';

/** An app with a single work path, whose callers are determined by `authenticate`. */
async function listen(
  given: Partial<typeof memory>,
  authenticate: Credentials['authenticate'] = () => somebody,
): Promise<{ app: FastifyInstance; shedder: LoadShedder }> {
  const { shedder } = loop(given);
  const metrics = createEdgeMetrics(new Registry());
  const app = fastify({
    serverFactory: (handler) => createServer(sheddingLoad(handler, { shedder, paths: new Set([path]), metrics })),
  });
  rawJsonBodies(app, 1024 ** 2);
  installErrors(app);
  installAccess(app, { authenticate, onEnded: () => () => {}, isFollowed: () => true });
  shedBodies(app, { shedder, metrics });
  // As calls of models are answered.
  app.post(path, { config: { access: { surface: 'session' }, startsWork: true } }, (_request, reply) => {
    reply.hijack();
    reply.raw.end('taken on');
  });
  app.put('/settings', { config: { access: { surface: 'session' } } }, () => 'changed');
  app.post('/events', { config: { access: { surface: 'public' } } }, () => 'received');
  await app.listen({ host: '127.0.0.1', port: 0 });
  return { app, shedder };
}

/** A POST whose head announces this many bytes, with the path exactly as given. */
function posting(app: FastifyInstance, target: string, bytes: number, token = 'somebody', method = 'POST') {
  const { port } = app.server.address() as AddressInfo;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'content-length': bytes };
  return request({ port, method, path: target, headers });
}

/** Its status once all of its bytes have arrived. */
const post = (app: FastifyInstance, target: string, bytes: number, token?: string) =>
  new Promise<number>((resolve, reject) => {
    posting(app, target, bytes, token)
      .once('response', (response) => response.resume().once('end', () => resolve(response.statusCode!)))
      .once('error', reject)
      .end('x'.repeat(bytes));
  });

test('the room of a body is returned when its request is over', async () => {
  const { app } = await listen({});
  for (let count = 0; count < 5; count += 1) expect(await post(app, path, 700_000)).toBe(200);
  await app.close();
});

test('a body of unknown length takes the room of the largest', async () => {
  const { app } = await listen({});
  const { port } = app.server.address() as AddressInfo;
  const headers = {
    authorization: 'Bearer somebody',
    'content-type': 'application/json',
    'transfer-encoding': 'chunked',
  };
  const [response] = await once(request({ port, method: 'POST', path, headers }).end('x'), 'response');
  expect(response.statusCode).toBe(503);
  await app.close();
});

test('a user who announces bodies and sends nothing shuts out only themselves', async () => {
  const { app } = await listen({}, (userId) => ({ ...somebody, userId }));
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
  const { app, shedder } = await listen({});
  const answered = Promise.withResolvers<number>();
  const sent = posting(app, '/settings', 700_000, 'somebody', 'PUT')
    .once('response', (response) => answered.resolve(response.resume().statusCode!))
    .on('error', answered.reject);
  sent.write('x');
  await once(app.server, 'request');
  expect(shedder.bodies.take('somebody', 700_000)).toBe(false);
  sent.end('x'.repeat(699_999));
  expect(await answered.promise).toBe(200);
  expect(shedder.bodies.take('somebody', 700_000)).toBe(true);
  await app.close();
});

test('bodies of requests without a credential share an eighth of the memory, beside that of users', async () => {
  const { app, shedder } = await listen({});
  const sent = posting(app, '/events', 90_000).on('error', () => {});
  sent.flushHeaders();
  await once(app.server, 'request');
  expect(await post(app, '/events', 90_000)).toBe(503);
  expect(await post(app, '/events', 65_000)).toBe(200);
  expect(shedder.bodies.take('somebody', 786_432)).toBe(true);
  sent.destroy();
  await app.close();
});

test('a refused request returns its room at once, though the rest of its body is still to come, and only once', async () => {
  const { app, shedder } = await listen({ bodiesMax: 2 * 1024 ** 2 });
  const bytes = 1_100_000;
  const sent = posting(app, path, bytes).on('error', () => {});
  sent.flushHeaders();
  const [[, answer], [response]] = await Promise.all([once(app.server, 'request'), once(sent, 'response')]);
  expect(response.statusCode).toBe(413);
  expect(shedder.bodies.take('somebody', bytes)).toBe(true);
  sent.destroy();
  await once(answer, 'close');
  expect(shedder.bodies.take('another', bytes)).toBe(false);
  await app.close();
});

test('a client that keeps no connection and sends all of a large body before it reads is told of the overload', async () => {
  const { app, shedder } = await listen({ heapIsFull: () => true });
  // One request per 100 ms is taken on.
  shedder.shortage();
  const bytes = 20 * 1024 ** 2;
  const { port } = app.server.address() as AddressInfo;
  const socket = connect(port, '127.0.0.1').pause();
  socket.on('error', () => {});
  socket.write(`POST ${path} HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\ncontent-length: ${bytes}\r\n\r\n`);
  await new Promise((resolve) => socket.write(Buffer.alloc(bytes), resolve));
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 503 .*"code":"server_is_overloaded"/s);
  await app.close();
});

test('a body whose client leaves before being identified takes no room', async () => {
  const known = Promise.withResolvers<Principal>();
  const { app, shedder } = await listen({}, () => known.promise);
  const sent = posting(app, path, 700_000).on('error', () => {});
  sent.flushHeaders();
  const [, response] = await once(app.server, 'request');
  sent.destroy();
  await once(response, 'close');
  known.resolve(somebody);
  await turnEnd();
  expect(shedder.bodies.take('somebody', 700_000)).toBe(true);
  await app.close();
});

describe('a path that the router treats as a work path', () => {
  let app: FastifyInstance;
  beforeAll(async () => {
    ({ app } = await listen({ heapIsFull: () => true }));
    // The one request that is accepted with each look.
    expect(await post(app, path, 10)).toBe(200);
  });
  afterAll(() => app.close());

  test.each([
    path,
    `${path}?a=b`,
    '/v1/ch%61t/completions',
    '/%76%31/chat/%63ompletions?a=%2F',
    `${path}#fragment`,
    `${path}#?a=b`,
    `http://gateway.test${path}`,
    `HTTP://user@gateway.test:8080${path}?a=b`,
    'https://gateway.test/v1/ch%61t/completions',
  ])('sheds load when written %s', async (target) => {
    expect(await post(app, target, 10)).toBe(503);
  });

  test.each([
    '/v1/chat%2Fcompletions',
    '/v1/chat%252Fcompletions',
    '/v1/ch%2561t/completions',
    '/v1/%zz',
    '//gateway.test/v1/chat/completions',
  ])('%s is none, and is left for the router to refuse', async (target) => {
    const status = await post(app, target, 10);
    expect(status).toBeGreaterThanOrEqual(400);
    expect(status).not.toBe(503);
  });
});

test('a heap is full once a collection leaves less room than new work may need, and no longer once that is freed', async () => {
  const program = `
    import { setImmediate as turnEnd } from 'node:timers/promises';
    import { watchMemory } from ${JSON.stringify(import.meta.resolve('./load-shedder.ts'))};
    const memory = watchMemory(0);
    let held = [];
    const seen = [];
    const look = async () => {
      // Observers are told of a collection in a later turn.
      for (let turn = 0; turn < 10; turn += 1) await turnEnd();
      seen.push(memory.heapIsFull());
    };
    const collect = () => (gc(), look());
    await collect();
    while (process.memoryUsage().heapUsed < 200 * 1024 ** 2) held.push(new Array(10_000).fill(0));
    await collect();
    held = [];
    await look();
    await collect();
    memory.close();
    console.log(JSON.stringify(seen));`;
  const limits = ['--expose-gc', '--max-old-space-size=240', '--max-semi-space-size=16'];
  const { stdout } = await promisify(execFile)(process.execPath, [...limits, '--input-type=module', '-e', program]);
  expect(JSON.parse(stdout)).toEqual([false, true, true, false]);
});
