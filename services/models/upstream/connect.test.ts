import dns from 'node:dns';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay, setImmediate as immediate } from 'node:timers/promises';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { Worker } from 'node:worker_threads';
import { create } from '@bufbuild/protobuf';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocketServer } from 'ws';
import { DeploymentSettingsSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { selfSignedCertificate } from '../../../test/support/certificate.ts';
import { startFaultProxy } from '../../../test/support/fault-proxy.ts';
import { startForwardProxy } from '../../../test/support/forward-proxy.ts';
import { memoryGrowth } from '../../../test/support/memory.ts';
import { startStopwatch } from '../../../test/support/stopwatch.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { connectUpstream, environmentSecrets } from './connect.ts';
import type { Upstream } from './upstream.ts';

afterEach(() => {
  vi.useRealTimers();
});

test.each([
  ['env:UPSTREAM_OTHER_KEY', 'the upstream’s'],
  ['env:UPSTREAM_MISSING', undefined],
  ['env:UPSTREAM_EMPTY', undefined],
  ['env:SERVICE_SECRET', undefined],
  ['file:/etc/passwd', undefined],
])("%s is sent to an upstream only if it names an upstream's secret", (reference, secret) => {
  const secretOf = environmentSecrets({
    UPSTREAM_OTHER_KEY: 'the upstream’s',
    UPSTREAM_EMPTY: '',
    SERVICE_SECRET: 'the gateway’s',
  });
  expect(secretOf(reference)).toBe(secret);
});

test('an upstream whose secret is missing is not asked, and the missing one is named', async () => {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(request.url!);
    response.end('{"data":[]}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const settings = create(DeploymentSettingsSchema, { baseUrl, secretReference: 'env:UPSTREAM_GONE' });
  const upstream = connectUpstream({ clock: systemClock, secret: () => undefined })(settings);
  expect(upstream.fault).toBe('UPSTREAM_GONE is not set');
  await expect(upstream.probe(AbortSignal.timeout(10_000))).rejects.toThrow(/^UPSTREAM_GONE is not set$/);
  await expect(upstream.listModels(AbortSignal.timeout(10_000))).rejects.toThrow(/^UPSTREAM_GONE is not set$/);
  await upstream.close();
  server.close();
  expect(requests).toEqual([]);
});

test('an upstream that refuses to list its models is quoted, without our key', async () => {
  const apiKey = 'sk-of-the-upstream';
  const server = createServer((request, response) => {
    const error = { message: `No such key: ${request.headers.authorization}.` };
    response.writeHead(401, { 'content-type': 'application/json' }).end(JSON.stringify({ error }));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const settings = create(DeploymentSettingsSchema, { baseUrl, secretReference: 'env:UPSTREAM_KEY' });
  const upstream = connectUpstream({ clock: systemClock, secret: () => apiKey })(settings);
  await expect(upstream.listModels(AbortSignal.timeout(10_000))).rejects.toThrow(
    /^GET \/v1\/models answered 401: No such key: Bearer \[redacted\]\.$/,
  );
  await upstream.close();
  server.close();
});

test('an upstream that closes a socket is quoted, without our key', async () => {
  const apiKey = 'sk-of-the-upstream';
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket, request) => socket.close(1008, `No such key: ${request.headers.authorization}.`));
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const settings = create(DeploymentSettingsSchema, { baseUrl, secretReference: 'env:UPSTREAM_KEY' });
  const upstream = connectUpstream({ clock: systemClock, secret: () => apiKey })(settings);
  const reason = await new Promise((closed) => {
    upstream.openSocket!('/realtime', { onOpen() {}, onText() {}, onClose: closed });
  });
  expect(reason).toBe('closed with 1008 No such key: Bearer [redacted].');
  await upstream.close();
  server.close();
});

test.each(['sk-first\nsk-second', 'sk-\u201cquoted\u201d'])(
  'a key that no header can carry opens no socket, and is not quoted: %j',
  async (apiKey) => {
    const settings = create(DeploymentSettingsSchema, {
      baseUrl: 'http://127.0.0.1:9/v1',
      secretReference: 'env:UPSTREAM_KEY',
    });
    const upstream = connectUpstream({ clock: systemClock, secret: () => apiKey })(settings);
    const reason = await new Promise((closed) => {
      const socket = upstream.openSocket!('/realtime', { onOpen() {}, onText() {}, onClose: closed });
      expect(socket.waitingBytes).toBe(0);
    });
    expect(reason).toBe('a header value with characters that none may have');
    await upstream.close();
  },
);

test('a socket whose upstream has gone without a word is closed within a minute, and one that only answers pings stays', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const sockets = new WebSocketServer({ server });
  // What is said here arrives after the answer to the ping.
  sockets.on('connection', (socket) => socket.on('ping', () => socket.send('pinged')));
  await using proxy = await startFaultProxy({
    target: { host: '127.0.0.1', port: (server.address() as AddressInfo).port },
  });
  const settings = create(DeploymentSettingsSchema, { baseUrl: `http://127.0.0.1:${proxy.port}/v1` });
  const upstream = connectUpstream({ clock: systemClock, secret: () => undefined })(settings);
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  let pings = 0;
  let isOpen = false;
  let reason: string | undefined;
  upstream.openSocket!('/realtime', {
    onOpen() {
      isOpen = true;
    },
    onText() {
      pings += 1;
    },
    onClose(why) {
      reason = why;
    },
  });
  await waitFor(() => isOpen, { description: 'the socket to be open' });
  for (let answered = 1; answered <= 3; answered += 1) {
    vi.advanceTimersByTime(30_000);
    await waitFor(() => pings === answered, { description: 'a ping to be answered' });
  }
  await proxy.set({ kind: 'blackhole' });
  vi.advanceTimersByTime(60_000);
  await waitFor(() => reason, { description: 'the socket to be closed' });
  expect(reason).toBe('it has answered no ping for 30 s');
  await upstream.close();
  for (const client of sockets.clients) client.terminate();
  server.close();
});

test('a socket stays open whose upstream answered while the process stood still, however long that was', async () => {
  const elsewhere = new Worker(
    `const { WebSocketServer } = require('ws');
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' }, () =>
      require('node:worker_threads').parentPort.postMessage(server.address().port));
    server.on('connection', (socket) => socket.on('ping', () => socket.send('pinged')));`,
    { eval: true },
  );
  const [port] = await once(elsewhere, 'message');
  const settings = create(DeploymentSettingsSchema, { baseUrl: `http://127.0.0.1:${port}/v1` });
  const upstream = connectUpstream({ clock: systemClock, secret: () => undefined })(settings);
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const opened = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<string>();
  let pings = 0;
  upstream.openSocket!('/realtime', {
    onOpen: opened.resolve,
    onText() {
      pings += 1;
    },
    onClose: ended.resolve,
  });
  await opened.promise;
  // What is due next are the timers, before anything is read.
  await immediate();
  vi.advanceTimersByTime(30_000);
  const timers = delay(0);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  await timers;
  vi.advanceTimersByTime(30_000);
  await Promise.race([ended.promise, waitFor(() => pings === 2, { description: 'the second ping to be answered' })]);
  expect(pings).toBe(2);
  await upstream.close();
  await elsewhere.terminate();
});

test('a server that stalls in the middle of its answer to a probe has given no sign of life', async () => {
  const server = createServer((_request, response) => void response.write('{"data":[')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const settings = create(DeploymentSettingsSchema, { baseUrl });
  const upstream = connectUpstream({ clock: systemClock, secret: () => undefined })(settings);
  await expect(upstream.probe(AbortSignal.timeout(200))).rejects.toThrow(/timeout/);
  await upstream.close();
  server.closeAllConnections();
  server.close();
});

test('probes follow a name that moves, though the server at its old address goes on refusing them', async () => {
  const old = createServer((_request, response) => void response.writeHead(503).end()).listen(0, '127.0.0.1');
  await once(old, 'listening');
  const { port } = old.address() as AddressInfo;
  const next = createServer((_request, response) => void response.end('{"data":[]}')).listen(port, '127.0.0.2');
  await once(next, 'listening');
  let address = '127.0.0.1';
  const looked = vi
    .spyOn(dns, 'lookup')
    .mockImplementation(((...[, , found]: [string, object, (error: null, addresses: object[]) => void]) =>
      found(null, [{ address, family: 4 }])) as never);
  onTestFinished(() => looked.mockRestore());
  vi.useFakeTimers({ toFake: ['Date'] });
  const settings = create(DeploymentSettingsSchema, { baseUrl: `http://moving.example:${port}/v1` });
  const upstream = connectUpstream({ clock: systemClock, secret: () => undefined })(settings);
  const probe = () => upstream.probe(AbortSignal.timeout(10_000));
  await expect(probe()).rejects.toThrow('GET /v1/models answered 503');
  address = '127.0.0.2';
  // Its connection is free for another once the server has said everything.
  await immediate();
  await expect(probe()).rejects.toThrow('GET /v1/models answered 503');
  await immediate();
  vi.setSystemTime(Date.now() + 301_000);
  await expect(probe()).resolves.toBeUndefined();
  await upstream.close();
  for (const server of [old, next]) {
    server.closeAllConnections();
    server.close();
  }
});

test('everything that an upstream over TLS is asked goes through the proxy', async () => {
  await using proxy = await startForwardProxy();
  const certificate = selfSignedCertificate();
  const trusted = getCACertificates('default');
  setDefaultCACertificates([...trusted, certificate.ca]);
  onTestFinished(() => setDefaultCACertificates(trusted));
  const server = createTlsServer(certificate, (_request, response) => {
    response.setHeader('content-type', 'application/json').end('{"data":[{"id":"far"}]}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  let connections = 0;
  server.on('connection', () => {
    connections++;
  });
  new WebSocketServer({ server }).on('connection', (socket) =>
    socket.on('message', (text) => String(text) === 'two' && socket.send('heard')),
  );
  const target = `localhost:${(server.address() as AddressInfo).port}`;
  const settings = create(DeploymentSettingsSchema, { baseUrl: `https://${target}/v1` });
  const connect = connectUpstream({
    clock: systemClock,
    secret: () => undefined,
    proxy: { url: proxy.url, except: '' },
  });
  const upstream = connect(settings);
  const signal = AbortSignal.timeout(60_000);
  expect(await upstream.listModels(signal)).toMatchObject([{ id: 'far' }]);
  await upstream.probe(signal);
  const heard = Promise.withResolvers<void>();
  using watch = startStopwatch();
  let turns = 0;
  const sendTwice = () => {
    socket.send('one');
    setImmediate(() => socket.send('two'));
  };
  const socket = upstream.openSocket!('/realtime', {
    onOpen: sendTwice,
    onText() {
      if (++turns < 40) sendTwice();
      else heard.resolve();
    },
    onClose: heard.reject,
  });
  await heard.promise;
  // Each second message would wait 40 ms for the acknowledgement of the first.
  expect(watch.ms).toBeLessThan(500);
  expect(new Set(proxy.asked.map((one) => one.target))).toEqual(new Set([target]));
  expect(connections).toBe(proxy.asked.length);
  proxy.answer = 'HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n';
  await upstream.close();
  const refused = connect(settings);
  await expect(refused.listModels(signal)).rejects.toThrow(/403 Forbidden/);
  await refused.close();
  socket.close();
  server.closeAllConnections();
  server.close();
});

test('an upstream that is asked nothing takes a few KiB: a catalog may have thousands of deployments', async () => {
  const settings = create(DeploymentSettingsSchema, { baseUrl: 'http://127.0.0.1:9/v1' });
  const connect = connectUpstream({ clock: systemClock, secret: () => undefined });
  const upstreams: Upstream[] = [];
  const grown = await memoryGrowth(0, async () => {
    for (let count = 0; count < 2_000; count++) upstreams.push(connect(settings));
  });
  await Promise.all(upstreams.map((upstream) => upstream.close()));
  expect(grown / upstreams.length).toBeLessThan(8 * 1024);
});
