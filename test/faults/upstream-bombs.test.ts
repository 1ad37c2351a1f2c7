import { connect, createServer, type Server, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Answer, startTestGateway, type TestGateway } from '../support/gateway.ts';
import { memoryGrowth } from '../support/memory.ts';
import { waitFor } from '../support/wait-for.ts';

const mebibyte = 1024 * 1024;
/** How much more memory the gateway may use than before. */
const bytesMax = 32 * mebibyte;

let gateway: TestGateway;
let session: string;
let key: { id: string; key: string };
let upstream: Server;
/** What the upstream writes once a request has arrived; the socket takes it as fast as the gateway reads. */
let answer: Iterable<Buffer | string>;
let written = 0;
let pouring: Socket | undefined;

beforeAll(async () => {
  upstream = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', (request) => {
      const line = request.toString();
      // Probes ask for the list of models.
      if (line.startsWith('GET ') && !line.startsWith('GET /endless'))
        socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n');
      else pour(socket);
    });
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const { port } = upstream.address() as { port: number };
  gateway = await startTestGateway();
  session = await gateway.login();
  key = await gateway.createKey(session);
  const admin = (path: string, body: object) => gateway.call('POST', `/api/v1/admin${path}`, session, body);
  // One model for each, since an upstream that fails often is left alone.
  for (const model of [...Object.keys(bombs).map(modelOf), 'long-stream']) {
    await admin('/models', { name: model, operations: ['chat_completions'] });
    await admin('/prices', { model, per_request_usd: 1 });
    const made = await admin('/deployments', { model, base_url: `http://127.0.0.1:${port}`, upstream_model: 'b' });
    expect(made.status, made.text).toBe(201);
  }
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  upstream?.close();
});

const modelOf = (bomb: string): string => bomb.replaceAll(' ', '-');

function pour(socket: Socket): void {
  pouring = socket;
  const source = answer[Symbol.iterator]();
  const more = (): void => {
    while (!socket.destroyed) {
      const { done, value } = source.next();
      if (done) return;
      written += value.length;
      if (!socket.write(value)) return void socket.once('drain', more);
    }
  };
  more();
}

const head = (fields: Record<string, string> = {}): string =>
  `HTTP/1.1 200 OK\r\n${Object.entries({ 'content-type': 'application/json', ...fields })
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`;
const gibibyte = function* (first: string, chunk: Buffer): Generator<Buffer | string> {
  yield first;
  for (let index = 0; index < 1024; index++) yield chunk;
};
const spaces = Buffer.alloc(mebibyte, ' ');
const headers = Buffer.from('x: y\r\n'.repeat(100_000));

type Bomb = { stream?: boolean; answer: () => Iterable<Buffer | string> };
const bombs: Readonly<Record<string, Bomb>> = {
  'a gzip of 256 MiB that nobody asked for': {
    answer: () => {
      const packed = gzipSync(Buffer.alloc(256 * mebibyte, ' '), { level: 1 });
      return [head({ 'content-encoding': 'gzip', 'content-length': String(packed.length) }), packed];
    },
  },
  'an endless head': { answer: () => gibibyte('HTTP/1.1 200 OK\r\n', headers) },
  'an endless line of a stream': {
    stream: true,
    answer: () => gibibyte(`${head({ 'content-type': 'text/event-stream' })}data: `, spaces),
  },
  'endless white space for JSON': {
    answer: () => gibibyte(head({ 'content-length': String(1024 * mebibyte) }), spaces),
  },
};

describe('an upstream that sends', () => {
  test.each(Object.entries(bombs))('%s meets a limit, and nobody pays', async (name, { stream, answer: make }) => {
    answer = make();
    written = 0;
    const body = {
      model: modelOf(name),
      messages: [{ role: 'user', content: 'Hi' }],
      ...(stream && { stream: true }),
    };
    const served = async () => {
      const reply = await gateway.call('POST', '/v1/chat/completions', key.key, body);
      return reply.status !== 503 && reply;
    };
    // If the last bomb has held up its probe, it counts as away until the next one.
    let reply!: Answer;
    const growthBytes = await memoryGrowth(bytesMax, async () => {
      reply = await waitFor(served, { description: 'the upstream to be asked', timeoutMs: 30_000 });
    });
    expect([reply.status, reply.json.error.code]).toEqual([502, 'upstream_error']);
    expect(growthBytes).toBeLessThan(bytesMax);
    expect(written).toBeLessThan(1024 * mebibyte);
    const requestId = reply.headers.get('x-request-id');
    const event = await waitFor(
      async () => {
        const { json } = await gateway.call('GET', '/api/v1/usage/history', session);
        return json.data.find(({ request_id }: { request_id: string }) => request_id === requestId);
      },
      { description: 'the event', timeoutMs: 20_000 },
    );
    expect(event).toMatchObject({ success: false, error_code: 'upstream_error', cost_usd: 0 });
  });
});

test('a client that stops reading a stream of 1 GiB pauses the upstream, and less than 64 MiB are held', async () => {
  const choice = { index: 0, delta: { content: 'x'.repeat(1_000) }, finish_reason: null };
  const chunk = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'b', choices: [choice] };
  answer = gibibyte(head({ 'content-type': 'text/event-stream' }), chunkOf(`data: ${JSON.stringify(chunk)}\n\n`));
  written = 0;
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  const body = JSON.stringify({ model: 'long-stream', messages: [{ role: 'user', content: 'Hi' }], stream: true });
  const growthBytes = await memoryGrowth(64 * mebibyte, async () => {
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key.key}\r\n` +
        `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    let seen = 0;
    // The upstream is paused once every buffer on the way is full.
    await waitFor(
      () => {
        const isStill = written > 0 && written === seen;
        seen = written;
        return isStill;
      },
      { description: 'the upstream to stand still', intervalMs: 500, timeoutMs: 30_000 },
    );
  });
  expect(growthBytes).toBeLessThan(64 * mebibyte);
  expect(written).toBeLessThan(128 * mebibyte);
  expect(pouring?.destroyed).toBe(false);
  socket.destroy();
  await waitFor(() => pouring?.destroyed, { description: 'the upstream to be left' });
});

test('an upstream whose list of models is endless is not registered, and the list is not held in memory', async () => {
  answer = gibibyte(head(), chunkOf('{"object":"list","data":[{"id":"a"},'));
  written = 0;
  const base_url = `http://127.0.0.1:${(upstream.address() as { port: number }).port}/endless`;
  let reply!: Answer;
  const growthBytes = await memoryGrowth(bytesMax, async () => {
    reply = await gateway.call('POST', '/api/v1/admin/upstreams', session, { base_url });
  });
  expect([reply.status, reply.json.error.code, reply.json.error.param]).toEqual([502, 'upstream_error', 'base_url']);
  expect(reply.json.error.message).toBe(
    `The models of ${base_url} could not be listed: GET /endless/models answered more than 4 MiB.`,
  );
  expect(growthBytes).toBeLessThan(bytesMax);
  expect(written).toBeLessThan(128 * mebibyte);
});

/** Enough events to fill a mebibyte. */
const chunkOf = (event: string): Buffer => Buffer.from(event.repeat(Math.ceil(mebibyte / event.length)));
