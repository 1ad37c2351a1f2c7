import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';
import { waitFor } from './wait-for.ts';

/** Sends back whatever it gets; when its client ends, it says goodbye. */
async function echoServer(listen: { port: number } | { path: string }): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {});
    socket.on('data', (bytes) => socket.write(bytes));
    socket.on('end', () => socket.end('bye'));
  });
  server.listen(listen);
  await once(server, 'listening');
  return server;
}

/** A client that remembers what it got and how it ended. */
class Client {
  readonly socket: Socket;
  received = '';
  ended = false;
  closed = false;
  error: string | undefined;

  constructor(port: number) {
    this.socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
    this.socket.on('data', (bytes) => {
      this.received += bytes;
    });
    this.socket.on('end', () => {
      this.ended = true;
    });
    this.socket.on('close', () => {
      this.closed = true;
    });
    this.socket.on('error', (error: NodeJS.ErrnoException) => {
      this.error = error.code;
    });
  }

  async got(text: string): Promise<void> {
    await waitFor(() => this.received === text, { description: `the client to receive ${text.slice(0, 40)}` });
  }

  async says(text: string): Promise<void> {
    const before = this.received;
    this.socket.write(text);
    await this.got(before + text);
  }
}

describe('a fault proxy in front of a TCP server', () => {
  let server: Server;
  let proxy: FaultProxy;
  const clients: Client[] = [];
  const client = (port = proxy.port) => {
    const one = new Client(port);
    clients.push(one);
    return one;
  };

  beforeEach(async () => {
    server = await echoServer({ port: 0 });
    proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: (server.address() as AddressInfo).port } });
  });
  afterEach(async () => {
    for (const { socket } of clients.splice(0)) socket.destroy();
    await proxy.close();
    server.close();
  });

  test('passes bytes both ways, including half-closes', async () => {
    const one = client();
    await one.says('hello');
    one.socket.end();
    await one.got('hellobye');
    await waitFor(() => one.ended, { description: 'the end' });
    await waitFor(() => proxy.connections === 0, { description: 'the connection to be gone' });
    expect(proxy.accepted).toBe(1);
  });

  test('passes megabytes unharmed under back-pressure', async () => {
    const one = client();
    const text = 'abcdefgh'.repeat(1 << 18);
    one.socket.write(text);
    await one.got(text);
  });

  test('latency delays each piece without adding up', async () => {
    const one = client();
    await one.says('x');
    await proxy.set({ kind: 'latency', ms: 60, direction: 'to-target' });
    const startMs = performance.now();
    for (let piece = 0; piece < 20; piece += 1) one.socket.write('y');
    await one.got(`x${'y'.repeat(20)}`);
    const tookMs = performance.now() - startMs;
    expect(tookMs).toBeGreaterThanOrEqual(59);
    expect(tookMs).toBeLessThan(20 * 60);
  });

  test('a frozen connection lets nothing through, and loses nothing', async () => {
    const one = client();
    await one.says('a');
    await proxy.set({ kind: 'freeze' });
    one.socket.write('b');
    const other = client();
    other.socket.write('c');
    await once(other.socket, 'connect');
    // Meanwhile, a direct connection that bypasses the proxy works.
    const direct = client((server.address() as AddressInfo).port);
    for (let times = 0; times < 10; times += 1) await direct.says('x');
    expect([one.received, other.received]).toEqual(['a', '']);
    await proxy.set({ kind: 'pass' });
    await one.got('ab');
    await other.got('c');
  });

  test('a black hole swallows bytes; a connection that lost some is reset afterwards, the others go on', async () => {
    const idle = client();
    await idle.says('a');
    const losing = client();
    await losing.says('b');
    await proxy.set({ kind: 'blackhole' });
    losing.socket.write('lost');
    const late = client();
    late.socket.write('lost too');
    await waitFor(() => proxy.lostBytes === 12, { description: 'all bytes to be lost' });
    expect(losing.received).toBe('b');
    expect(losing.closed).toBe(false);
    await proxy.set({ kind: 'pass' });
    await waitFor(() => losing.error === 'ECONNRESET' && late.closed, { description: 'the resets' });
    await idle.says('still here');
  });

  test('refuses new connections, keeps existing ones, and listens at the same port again', async () => {
    const one = client();
    await one.says('a');
    await proxy.set({ kind: 'refuse' });
    const refused = client();
    await waitFor(() => refused.error === 'ECONNREFUSED', { description: 'the refusal' });
    await one.says('b');
    await proxy.set({ kind: 'pass' });
    await client().says('c');
    await one.says('d');
  });

  test('reset ends existing and new connections with RST', async () => {
    const one = client();
    await one.says('a');
    await proxy.set({ kind: 'reset' });
    await waitFor(() => one.error === 'ECONNRESET', { description: 'the reset' });
    const late = client();
    await waitFor(() => late.error === 'ECONNRESET', { description: 'the reset of a new connection' });
  });

  test('half-close: the client sees the end and can still send', async () => {
    const one = client();
    await one.says('a');
    await proxy.set({ kind: 'half-close' });
    await waitFor(() => one.ended, { description: 'the end' });
    expect(one.closed).toBe(false);
    one.socket.write('still read');
    await waitFor(() => one.socket.writableLength === 0, { description: 'the write' });
    expect(one.error).toBeUndefined();
  });

  test('cut lets exactly the given number of bytes through', async () => {
    const one = client();
    await one.says('before');
    await proxy.set({ kind: 'cut', afterBytes: 4, direction: 'to-client' });
    one.socket.write('abcdefgh');
    await waitFor(() => one.closed, { description: 'the cut' });
    expect(one.received).toBe('beforeabcd');
  });

  test('throttle slows down, and lifting it lets everything through', async () => {
    const one = client();
    await one.says('a');
    await proxy.set({ kind: 'throttle', bytesPerSecond: 2000, direction: 'to-client' });
    const startMs = performance.now();
    await one.says('x'.repeat(200));
    expect(performance.now() - startMs).toBeGreaterThanOrEqual(95);
    one.socket.write('y'.repeat(1_000_000));
    await waitFor(() => one.received.length > 210, { description: 'the first slices' });
    await proxy.set({ kind: 'pass' });
    await waitFor(() => one.received.length === 1_000_201, { description: 'all of it' });
  });

  test('a missing target resets the client', async () => {
    server.close();
    const one = client();
    await waitFor(() => one.error === 'ECONNRESET', { description: 'the reset' });
  });
});

test('works in front of a Unix socket as well', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'proxy-'));
  const server = await echoServer({ path: join(folder, 'echo') });
  {
    await using proxy = await startFaultProxy({ target: { path: join(folder, 'echo') } });
    const client = new Client(proxy.port);
    await client.says('hello');
    proxy.resetAll();
    await waitFor(() => client.closed, { description: 'the reset' });
  }
  server.close();
  rmSync(folder, { recursive: true });
});
