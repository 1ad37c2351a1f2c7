import { once } from 'node:events';
import { constants, createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test, vi } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { startFaultProxy } from '../../../test/support/fault-proxy.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { ErrorReason } from '../errors.ts';
import { createRpcClient } from './client.ts';
import { createRpcClientTransport } from './client-transport.ts';

test('a connection that dies under calls, while the next ones already open another, fails the calls and not the process', async () => {
  // The answer of a balancer without backends, which is not HTTP/2.
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.write('HTTP/1.1 503 Service Unavailable\r\n\r\n'));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const transport = createRpcClientTransport({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  const keys = createRpcClient(KeysService, transport);
  const uncaught = vi.fn();
  process.on('uncaughtExceptionMonitor', uncaught);
  try {
    for (let calls = 0; calls < 10; calls++) {
      await expect(keys.listKeys({})).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
    }
    transport.close();
    const connections = () => new Promise<number>((resolve) => server.getConnections((_, count) => resolve(count)));
    await waitFor(async () => (await connections()) === 0, { description: 'the end of all connections' });
    expect(uncaught).not.toHaveBeenCalled();
  } finally {
    process.off('uncaughtExceptionMonitor', uncaught);
    server.close();
  }
});

const { NGHTTP2_INTERNAL_ERROR, NGHTTP2_PROTOCOL_ERROR, NGHTTP2_CANCEL, NGHTTP2_REFUSED_STREAM } = constants;

test.each(
  Object.entries({
    INTERNAL_ERROR: NGHTTP2_INTERNAL_ERROR,
    PROTOCOL_ERROR: NGHTTP2_PROTOCOL_ERROR,
    CANCEL: NGHTTP2_CANCEL,
    REFUSED_STREAM: NGHTTP2_REFUSED_STREAM,
  }),
)(
  'a call whose stream the other side gives up with %s found a part of the gateway out of reach',
  async (_name, code) => {
    const server = createHttp2Server((request) => request.stream.close(code)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const transport = createRpcClientTransport({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    try {
      const keys = createRpcClient(KeysService, transport);
      await expect(keys.listKeys({})).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
    } finally {
      transport.close();
      server.close();
    }
  },
);

test('a call given up before its message has left is reset, not ended like one with an empty message', async () => {
  let sent = Buffer.alloc(0);
  const server = createServer((socket) => {
    socket
      .on('error', () => {})
      .on('data', (bytes: Buffer) => {
        sent = Buffer.concat([sent, bytes]);
      });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const transport = createRpcClientTransport({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  try {
    const caller = new AbortController();
    const call = createRpcClient(KeysService, transport).listKeys({ search: 'a' }, { signal: caller.signal });
    // While the connection is being established.
    caller.abort();
    await expect(call).rejects.toMatchObject({ reason: ErrorReason.CANCELLED });
    const ofCall = () => framesOf(sent).filter(({ stream }) => stream > 0);
    await waitFor(() => ofCall().some(({ type }) => type === 'RST_STREAM'), { description: 'the reset' });
    expect(ofCall().map(({ type, endsStream }) => [type, endsStream])).toEqual([
      ['HEADERS', false],
      ['RST_STREAM', false],
    ]);
  } finally {
    transport.close();
    server.close();
  }
});

/** The frames after a client's preface (RFC 9113, sections 3.4, 4.1 and 6), without flow control. */
function framesOf(sent: Buffer): { type: string; stream: number; endsStream: boolean }[] {
  const frames = [];
  for (let at = 24; at + 9 <= sent.length; at += 9 + sent.readUIntBE(at, 3)) {
    const type = ['DATA', 'HEADERS', '', 'RST_STREAM'][sent[at + 3]!] ?? '';
    if (type === '') continue;
    const endsStream = type !== 'RST_STREAM' && (sent[at + 4]! & 1) === 1;
    frames.push({ type, stream: sent.readUInt32BE(at + 5), endsStream });
  }
  return frames;
}

test('a call that the other side refused to start, as a stopping process does, is made once more', async () => {
  let calls = 0;
  const server = createHttp2Server((request, answer) => {
    calls += 1;
    if (calls % 2 === 1) request.stream.close(NGHTTP2_REFUSED_STREAM);
    else if (request.url.endsWith('/ListKeys')) answer.writeHead(200, { 'content-type': 'application/proto' }).end();
    // The end of a stream without messages.
    else answer.writeHead(200, { 'content-type': 'application/connect+proto' }).end('\x02\0\0\0\x02{}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const transport = createRpcClientTransport({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  try {
    await createRpcClient(KeysService, transport).listKeys({});
    const feed = createRpcClient(ModelsService, transport).watchCatalog({});
    expect(await feed[Symbol.asyncIterator]().next()).toMatchObject({ done: true });
    expect(calls).toBe(4);
  } finally {
    transport.close();
    server.close();
  }
});

test.each([
  [404, 'text/html'],
  [404, 'application/json'],
  [403, 'text/html'],
  [401, 'text/plain'],
  [400, 'text/html'],
  [200, 'text/html'],
])(
  'what answers %i with %s is no service: a part of the gateway is out of reach, and the log says at which address',
  async (status, type) => {
    // A proxy without a route, or another process at an address that the service has left.
    const server = createHttp2Server((_request, answer) => {
      answer.writeHead(status, { 'content-type': type }).end('{"message":"There is nothing here"}');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const transport = createRpcClientTransport({ url });
    const failure = {
      reason: ErrorReason.OVERLOADED,
      details: { internal: expect.stringContaining(url), cause: { message: expect.stringContaining(url) } },
    };
    try {
      await expect(createRpcClient(KeysService, transport).listKeys({})).rejects.toMatchObject(failure);
      const feed = createRpcClient(ModelsService, transport).watchCatalog({});
      await expect(feed[Symbol.asyncIterator]().next()).rejects.toMatchObject(failure);
    } finally {
      transport.close();
      server.close();
    }
  },
);

test('a service whose machine silently disappears is given up, however often it is called, and found at its next address', async () => {
  const server = createHttp2Server((_request, answer) => {
    answer.writeHead(200, { 'content-type': 'application/proto' }).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await using address = await startFaultProxy({ target: { host: '127.0.0.1', port } });
  const gone = await startFaultProxy({ target: { host: '127.0.0.1', port } });
  address.moveTo({ host: gone.host, port: gone.port });
  const transport = createRpcClientTransport({ url: `http://${address.host}:${address.port}`, silenceMs: 200 });
  const keys = createRpcClient(KeysService, transport);
  try {
    await keys.listKeys({});
    await gone.set({ kind: 'freeze' });
    address.moveTo({ host: '127.0.0.1', port });
    // Like a feed and other calls: there is always a call that ends while another has just begun.
    const calls = [120, 170].map(async (timeoutMs) => {
      const call = () => keys.listKeys({}, { timeoutMs }).then(Boolean, () => false);
      await waitFor(call, { description: 'an answer from the next address' });
    });
    await Promise.all(calls);
  } finally {
    transport.close();
    await gone.close();
    server.close();
  }
});

test('a connection that is never established fails its calls before their deadline, so that the next ones may look elsewhere', async () => {
  // A process that stands still: the system accepts connections for it, and nobody answers the TLS handshake.
  const server = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const transport = createRpcClientTransport({ url, silenceMs: 100 });
  try {
    const call = createRpcClient(KeysService, transport).listKeys({}, { timeoutMs: 3_600_000 });
    await expect(call).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  } finally {
    transport.close();
    server.close();
  }
});
