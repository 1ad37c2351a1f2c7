import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as turnEnd } from 'node:timers/promises';
import { promisify } from 'node:util';
import fastify, { type FastifyInstance } from 'fastify';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { post } from '../fixtures/posting.ts';
import { rawJsonBodies } from '../http/bodies.ts';
import { installErrors } from '../http/errors.ts';
import { createEdgeMetrics } from '../http/metrics.ts';
import { beginAnswer } from '../http/own-answers.ts';
import { LoadShedder, sheddingLoad } from './load-shedder.ts';

/** A loop whose turns serve requests for as long as the test says. */
function loop(heapIsFull = () => false) {
  let nowMs = 1_000;
  const shedder = new LoadShedder(() => nowMs, heapIsFull);
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

test('a heap that is nearly full refuses new work until it no longer is, except one request per 100 ms', () => {
  let isFull = true;
  const { shedder, wait } = loop(() => isFull);
  expect(shedder.shortage()).toBeUndefined();
  expect([shedder.shortage(), shedder.shortage()]).toEqual(['memory', 'memory']);
  wait(101);
  expect([shedder.shortage(), shedder.shortage()]).toEqual([undefined, 'memory']);
  isFull = false;
  wait(101);
  expect([shedder.shortage(), shedder.shortage()]).toEqual([undefined, undefined]);
});

const path = '/v1/chat/completions';

/** An app with a single work path, in a process whose heap is full. */
async function listen(): Promise<{ app: FastifyInstance; shedder: LoadShedder }> {
  const { shedder } = loop(() => true);
  const metrics = createEdgeMetrics(new Registry());
  const app = fastify({
    serverFactory: (handler) => createServer(sheddingLoad(handler, { shedder, paths: new Set([path]), metrics })),
  });
  app.addHook('onRequest', (request, reply, done) => done(beginAnswer(request, reply)));
  rawJsonBodies(app, 1024 ** 2);
  installErrors(app);
  app.post(path, () => 'taken on');
  await app.listen({ host: '127.0.0.1', port: 0 });
  return { app, shedder };
}

test('a client that keeps no connection and sends all of a large body before it reads is told of the overload', async () => {
  const { app, shedder } = await listen();
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

test('a request of which nobody knows where it ends is not kept a connection for, overload or not', async () => {
  const { app, shedder } = await listen();
  shedder.shortage();
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  socket.write(`POST ${path} HTTP/1.1\r\nhost: gateway\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`);
  expect(await text(socket)).toMatch(/^HTTP\/1\.1 501 /);
  await app.close();
});

describe('a path that the router treats as a work path', () => {
  let app: FastifyInstance;
  beforeAll(async () => {
    ({ app } = await listen());
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
    import { watchHeap } from ${JSON.stringify(import.meta.resolve('./load-shedder.ts'))};
    const heap = watchHeap();
    let held = [];
    const seen = [];
    const look = async () => {
      // Observers are told of a collection in a later turn.
      for (let turn = 0; turn < 10; turn += 1) await turnEnd();
      seen.push(heap.isFull());
    };
    const collect = () => (gc(), look());
    await collect();
    while (process.memoryUsage().heapUsed < 200 * 1024 ** 2) held.push(new Array(10_000).fill(0));
    await collect();
    held = [];
    await look();
    await collect();
    heap.close();
    console.log(JSON.stringify(seen));`;
  const limits = ['--expose-gc', '--max-old-space-size=240', '--max-semi-space-size=16'];
  const { stdout } = await promisify(execFile)(process.execPath, [...limits, '--input-type=module', '-e', program]);
  expect(JSON.parse(stdout)).toEqual([false, true, true, false]);
});
