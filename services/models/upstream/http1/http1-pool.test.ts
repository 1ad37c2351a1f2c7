import dns from 'node:dns';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { selfSignedCertificate } from '../../../../test/support/certificate.ts';
import { startForwardProxy } from '../../../../test/support/forward-proxy.ts';
import { collectGarbage } from '../../../../test/support/memory.ts';
import { bothRefused, severalAddresses, useSeveralAddresses } from '../../../../test/support/several-addresses.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { ForwardProxy } from '../tls.ts';
import type { BodyPiece, UpstreamExchange, UpstreamFailure } from '../upstream.ts';
import { Http1Pool } from './http1-pool.ts';

const ended: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end();
});

type Found = (error: null, addresses: { address: string; family: number }[]) => void;

type Served = { url: string; server: Server; sockets: Socket[]; requests: string[] };

/** A server that calls `answer` with each piece of a request that ends in a brace. */
async function serve(
  answer: (socket: Socket, request: string) => void,
  make = createServer,
  at: { host?: string; port?: number } = {},
): Promise<Served> {
  const served: Served = { url: '', server: make(), sockets: [], requests: [] };
  served.server.on(make === createServer ? 'connection' : 'secureConnection', (socket: Socket) => {
    served.sockets.push(socket);
    let text = '';
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
      if (!text.endsWith('}')) return;
      served.requests.push(text);
      const request = text;
      text = '';
      answer(socket, request);
    });
  });
  await once(served.server.listen({ host: '127.0.0.1', port: 0, ...at }), 'listening');
  served.url = `http://127.0.0.1:${(served.server.address() as AddressInfo).port}/v1`;
  ended.push(() => {
    for (const socket of served.sockets) socket.destroy();
    served.server.close();
  });
  return served;
}

type PoolOptions = { connectTimeoutMs?: number; lifetimeMs?: number; apiKey?: string; proxy?: ForwardProxy };

function pool(url: string, extra: PoolOptions = {}): Http1Pool {
  const made = new Http1Pool({ base: new URL(url), apiKey: 'key', connectTimeoutMs: 30_000, ...extra });
  ended.push(() => made.close());
  return made;
}

type Outcome = { status?: number; type?: string | undefined; body: string; failure?: UpstreamFailure };
type Options = { body?: BodyPiece[]; headTimeoutMs?: number; idleTimeoutMs?: number; contentType?: string };

function call(client: Http1Pool, options: Options = {}, onData?: (exchange: UpstreamExchange) => void) {
  const outcome: Outcome = { body: '' };
  const { promise, resolve } = Promise.withResolvers<Outcome>();
  const exchange = client.send(
    {
      operation: Operation.CHAT_COMPLETIONS,
      path: '/chat/completions',
      requestId: '',
      contentType: 'application/json',
      body: [Buffer.from('{}')],
      headTimeoutMs: 60_000,
      idleTimeoutMs: 60_000,
      ...options,
    },
    {
      onHead(head) {
        outcome.status = head.status;
        outcome.type = head.header('content-type');
      },
      onData(chunk) {
        outcome.body += Buffer.from(chunk).toString('latin1');
        onData?.(exchange);
      },
      onEnd: () => resolve(outcome),
      onError(failure) {
        outcome.failure = failure;
        resolve(outcome);
      },
    },
  );
  return { exchange, outcome: promise };
}

const hello = 'HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-length: 5\r\n\r\nhello';

describe('a connection', () => {
  test('that is idle keeps nothing of the request before', async () => {
    const answer = hello.replace('\r\n', '\r\nKeep-Alive: timeout=600\r\n');
    const served = await serve((socket) => socket.write(answer));
    const client = pool(served.url);
    const send = async () => {
      const body = Buffer.from(`{${' '.repeat(1_000_000)}}`);
      await call(client, { body: [body] }).outcome;
      return new WeakRef(body);
    };
    const sent = await send();
    const isFree = () => {
      collectGarbage();
      return sent.deref() === undefined;
    };
    await waitFor(isFree, { description: 'its body to be freed', timeoutMs: 5_000 });
    await call(client).outcome;
    expect(served.sockets).toHaveLength(1);
  });

  test('is reused, with a correct request', async () => {
    const served = await serve((socket) => socket.write(hello));
    const client = pool(served.url);
    for (let time = 0; time < 3; time++) {
      expect(await call(client).outcome).toEqual({ status: 200, type: 'text/plain', body: 'hello' });
    }
    expect(served.sockets).toHaveLength(1);
    expect(served.requests[0]!.split('\r\n')).toEqual([
      'POST /v1/chat/completions HTTP/1.1',
      `host: ${new URL(served.url).host}`,
      'connection: keep-alive',
      'authorization: Bearer key',
      'content-type: application/json',
      'accept: */*',
      'accept-encoding: identity',
      'content-length: 2',
      '',
      '{}',
    ]);
  });

  test.each([
    ['has bytes after the answer', `${hello}x`],
    ['says close', hello.replace('\r\n', '\r\nConnection: close\r\n')],
    ['will be closed at once', hello.replace('\r\n', '\r\nKeep-Alive: timeout=1\r\n')],
  ])('that %s is not reused', async (_what, answer) => {
    const served = await serve((socket) => socket.write(answer));
    const client = pool(served.url);
    await call(client).outcome;
    expect(await call(client).outcome).toMatchObject({ body: 'hello' });
    expect(served.sockets).toHaveLength(2);
  });

  test('is given up after its lifetime, however busy it is, so that calls follow a name that moves', async () => {
    const old = await serve((socket) => socket.write(hello));
    const port = Number(new URL(old.url).port);
    const next = await serve((socket) => socket.write(hello), createServer, { host: '127.0.0.2', port });
    let address = '127.0.0.1';
    const looked = vi
      .spyOn(dns, 'lookup')
      .mockImplementation(((...[, , found]: [string, object, Found]) =>
        found(null, [{ address, family: 4 }])) as never);
    ended.push(() => looked.mockRestore());
    const client = pool(`http://moving.example:${port}/v1`, { lifetimeMs: 200 });
    await call(client).outcome;
    address = '127.0.0.2';
    const hasMoved = async () => {
      await call(client).outcome;
      return next.requests.length > 0;
    };
    await waitFor(hasMoved, { description: 'a call to the new address', intervalMs: 1 });
    expect(old.sockets).toHaveLength(1);
  });

  test('that was made together with others is not given up together with all of them', async () => {
    const count = 20;
    const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=600\r\n\r\n';
    let held: Socket[] = [];
    const served = await serve((socket) => {
      held.push(socket);
      if (held.length < count) return;
      for (const waiting of held) waiting.write(answer);
      held = [];
    });
    const client = pool(served.url);
    const now = performance.now.bind(performance);
    let laterMs = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + laterMs);
    ended.push(() => clock.mockRestore());
    /** How many connections there were in all, after calls on as many at once as there are. */
    const madeAt = async (minutes: number): Promise<number> => {
      laterMs = minutes * 60_000;
      await Promise.all(Array.from({ length: count }, () => call(client).outcome));
      return served.sockets.length;
    };
    expect([await madeAt(0), await madeAt(3.9)]).toEqual([count, count]);
    const madeMeanwhile = await madeAt(4.5);
    expect(madeMeanwhile).toBeGreaterThan(count);
    expect(madeMeanwhile).toBeLessThan(2 * count);
    expect(await madeAt(5)).toBe(2 * count);
  });

  test('that its server half-closed while idle is not reused', async () => {
    const served = await serve((socket) => socket.write(hello));
    const client = pool(served.url);
    await call(client).outcome;
    const [socket] = served.sockets;
    socket!.end();
    await once(socket!, 'close');
    expect(await call(client).outcome).toMatchObject({ body: 'hello' });
    expect(served.sockets).toHaveLength(2);
  });

  test('on which something arrives before its request has left passes the request to a new one', async () => {
    const served = await serve((socket) => socket.write(hello));
    const client = pool(served.url);
    await call(client).outcome;
    const second = await new Promise<ReturnType<typeof call>>((resolve) => {
      // From here on the event loop reads before requests leave.
      setImmediate(() => {
        served.sockets[0]!.write(hello);
        resolve(call(client));
      });
    });
    expect((await second.outcome).body).toBe('hello');
    expect([served.requests.length, served.sockets.length]).toEqual([2, 2]);
  });

  test('sends all requests of one turn of the event loop except those that were aborted in it', async () => {
    const served = await serve((socket) => socket.write(hello));
    const client = pool(served.url);
    const paths = ['a', 'b', 'c'].map((name) => [Buffer.from(`{${name}}`)]);
    await Promise.all(paths.map((body) => call(client, { body }).outcome));
    served.requests.length = 0;
    // If the turn took longer than requests wait for others, the aborted one would be sent.
    vi.spyOn(performance, 'now').mockReturnValue(performance.now());
    const [first, aborted, last] = paths.map((body) => call(client, { body }));
    aborted!.exchange.abort();
    vi.restoreAllMocks();
    expect(await Promise.all([first!.outcome, last!.outcome])).toMatchObject([{ body: 'hello' }, { body: 'hello' }]);
    expect(served.requests.map((request) => request.split('\r\n\r\n')[1]).toSorted()).toEqual(['{a}', '{c}']);
  });

  test.each(['end', 'destroy', 'resetAndDestroy'] as const)(
    'that its server closes as idle (%s) while a request is on its way hands it to a new one, and the next failure is one',
    async (close) => {
      const served = await serve((socket) => {
        if (served.requests.length % 2 === 1 && served.requests.length < 5) socket.write(hello);
        else socket[close]();
      });
      const client = pool(served.url);
      expect((await call(client).outcome).body).toBe('hello');
      expect((await call(client).outcome).body).toBe('hello');
      expect(served.sockets).toHaveLength(2);
      expect((await call(client).outcome).failure?.kind).toBe('reset');
      expect(served.requests).toHaveLength(5);
    },
  );

  test('that its server ends as idle with a 408 while a request is on its way hands it to a new one, where a 408 is an answer', async () => {
    const tooLate = 'HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n';
    const served = await serve((socket) => {
      if (served.requests.length === 1) socket.write(hello);
      else socket.end(tooLate);
    });
    const client = pool(served.url);
    expect((await call(client).outcome).body).toBe('hello');
    expect(await call(client).outcome).toMatchObject({ status: 408, body: '' });
    expect(served.requests).toHaveLength(3);
  });

  test('that breaks a while after its request fails the call, which is not sent again', async () => {
    const served = await serve((socket) => {
      if (served.requests.length === 1) socket.write(hello);
      else setTimeout(() => socket.destroy(), 1_100);
    });
    const client = pool(served.url);
    await call(client).outcome;
    expect((await call(client).outcome).failure?.kind).toBe('reset');
    expect(served.requests).toHaveLength(2);
  });

  test('that breaks within the head of its answer fails the call, which is not sent again', async () => {
    const served = await serve((socket) => {
      if (served.requests.length === 1) socket.write(hello);
      else socket.end('HTTP/1.1 200');
    });
    const client = pool(served.url);
    await call(client).outcome;
    expect((await call(client).outcome).failure?.kind).toBe('reset');
    expect(served.requests).toHaveLength(2);
  });
});

describe('a call fails', () => {
  test('as refused if nobody listens', async () => {
    const served = await serve(() => {});
    served.server.close();
    await once(served.server, 'close');
    expect((await call(pool(served.url)).outcome).failure?.kind).toBe('refused');
  });

  test('with the reason of each address if its name has several and all refuse', async () => {
    using _ = useSeveralAddresses();
    const { failure } = await call(pool(`http://${severalAddresses}:1`)).outcome;
    expect(failure).toMatchObject({ kind: 'refused', message: expect.stringMatching(bothRefused) });
  });

  test.each([
    ['no head comes', '', { headTimeoutMs: 150 }],
    ['the body stops', hello.slice(0, -2), { idleTimeoutMs: 150 }],
  ])('as a timeout if %s', async (_what, answer, options) => {
    const served = await serve((socket) => socket.write(answer));
    expect((await call(pool(served.url), options).outcome).failure?.kind).toBe('timeout');
  });

  test.each([
    ['reset', hello.slice(0, -2)],
    ['reset', 'HTTP/1.1 200 OK\r\n'],
    ['protocol', 'HTTP/1.1 200 OK\n\n'],
    ['protocol', 'HTTP/1.1 101 Up\r\n\r\n'],
  ])('as %s for %j', async (kind, answer) => {
    const served = await serve((socket) => socket.end(answer));
    expect((await call(pool(served.url)).outcome).failure?.kind).toBe(kind);
  });

  test('unsent if a header value would end its header', async () => {
    const served = await serve((socket) => socket.write(hello));
    const contentType = 'multipart/form-data; boundary=a\r\nx: y';
    expect((await call(pool(served.url), { contentType }).outcome).failure?.kind).toBe('refused');
    expect(served.sockets).toHaveLength(0);
  });
});

test('what came before a malformed chunk, even in the same piece, is delivered before the failure', async () => {
  const served = await serve((socket) =>
    socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nzz'),
  );
  expect(await call(pool(served.url)).outcome).toMatchObject({
    status: 200,
    body: 'hello',
    failure: { kind: 'protocol' },
  });
});

test('a body that ends with its connection is complete', async () => {
  const served = await serve((socket) => socket.end('HTTP/1.0 200 OK\r\n\r\nhello'));
  expect(await call(pool(served.url)).outcome).toEqual({ status: 200, type: undefined, body: 'hello' });
});

test('a body from a file and from memory is sent unchanged', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'http1-'));
  ended.push(() => rm(folder, { recursive: true }));
  const file = join(folder, 'audio');
  await writeFile(file, `--${'a'.repeat(1_000_000)}--`);
  const served = await serve((socket) => socket.write(hello));
  const body = [Buffer.from('start '), { file, start: 2, end: 1_000_002 }, Buffer.from('}')];
  expect(await call(pool(served.url), { body }).outcome).toMatchObject({ body: 'hello' });
  expect(served.requests[0]).toContain('content-length: 1000007\r\n');
  expect(served.requests[0]!.split('\r\n\r\n')[1]).toBe(`start ${'a'.repeat(1_000_000)}}`);
});

test('abort closes the connection, and there are no more callbacks', async () => {
  const served = await serve((socket) => socket.write(hello.slice(0, -2)));
  let pieces = 0;
  const { exchange, outcome } = call(pool(served.url), {}, (running) => {
    pieces++;
    running.abort();
  });
  await expect.poll(() => pieces).toBe(1);
  await expect.poll(() => served.sockets[0]!.destroyed).toBe(true);
  exchange.resume();
  expect(await Promise.race([outcome, 'silent'])).toBe('silent');
});

test('a reader that stops holds up a server of 1 GiB, even beyond the timeout', async () => {
  let written = 0;
  const piece = Buffer.alloc(1024 * 1024, 'x');
  const served = await serve((socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n');
    const more = (): void => {
      while (!socket.destroyed && written < 1024) {
        written++;
        if (!socket.write(piece)) return void socket.once('drain', more);
      }
    };
    if (served.sockets.length === 1) more();
  });
  let pieces = 0;
  const client = pool(served.url);
  const { exchange } = call(client, { idleTimeoutMs: 100 }, (running) => {
    if (++pieces === 1) running.pause();
  });
  await expect.poll(() => pieces).toBeGreaterThan(0);
  // Others wait as long, and later, and run out of time meanwhile: so would this one.
  for (let time = 0; time < 2; time++) {
    expect(await call(client, { idleTimeoutMs: 100 }).outcome).toMatchObject({ failure: { kind: 'timeout' } });
  }
  expect(pieces).toBe(1);
  expect(written).toBeLessThan(64);
  exchange.abort();
});

test('a reader that pauses and resumes gets everything', async () => {
  const body = Buffer.alloc(4_000_000, 'x').toString();
  const served = await serve((socket) => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 4000000\r\n\r\n${body}`));
  const client = pool(served.url);
  for (let time = 0; time < 2; time++) {
    const { outcome } = call(client, {}, (running) => {
      running.pause();
      setImmediate(() => running.resume());
    });
    expect((await outcome).body.length).toBe(4_000_000);
  }
  expect(served.sockets).toHaveLength(1);
});

describe('TLS', () => {
  const certificate = selfSignedCertificate();
  const tls = (() => createTlsServer(certificate)) as unknown as typeof createServer;

  function trust(): void {
    const trusted = getCACertificates('default');
    setDefaultCACertificates([...trusted, certificate.ca]);
    ended.push(() => setDefaultCACertificates(trusted));
  }

  test('is used with a server whose certificate is trusted', async () => {
    const served = await serve((socket) => socket.write(hello), tls);
    trust();
    const client = pool(served.url.replace('http:', 'https:'));
    for (let time = 0; time < 2; time++) expect(await call(client).outcome).toMatchObject({ body: 'hello' });
    expect(served.sockets).toHaveLength(1);
  });

  test('is refused with any other', async () => {
    const served = await serve((socket) => socket.write(hello), tls);
    await using proxy = await startForwardProxy();
    const url = served.url.replace('http:', 'https:');
    for (const client of [pool(url), pool(url, { proxy: { url: proxy.url, except: '' } })]) {
      const { failure } = await call(client).outcome;
      expect(failure).toMatchObject({ kind: 'refused', message: expect.stringContaining('certificate') });
    }
    expect(served.requests).toHaveLength(0);
  });

  test('is spoken through a proxy, with everything a connection does', async () => {
    await using proxy = await startForwardProxy();
    const large = 'x'.repeat(4_000_000);
    const served = await serve(
      (socket) => socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${large.length}\r\n\r\n${large}`),
      tls,
    );
    trust();
    const url = served.url.replace('http://127.0.0.1', 'https://localhost');
    const client = pool(url, { proxy: { url: proxy.url.replace('//', '//us%40er:pass@'), except: 'localhost:1' } });
    for (let time = 0; time < 2; time++) {
      let pauses = 0;
      const { outcome } = call(client, {}, (running) => {
        if (pauses++ > 20) return;
        running.pause();
        setImmediate(() => running.resume());
      });
      expect((await outcome).body.length).toBe(large.length);
    }
    expect(served.sockets).toHaveLength(1);
    const authorization = `Basic ${Buffer.from('us@er:pass').toString('base64')}`;
    expect(proxy.asked).toEqual([{ target: new URL(url).host, authorization }]);

    const { exchange, outcome } = call(client, {}, () => exchange.abort());
    await waitFor(() => served.sockets[0]!.destroyed, { description: 'the aborted call to end its connection' });
    served.server.close();
    for (const socket of served.sockets) socket.destroy();
    expect((await call(client).outcome).failure?.kind).toBe('refused');
    await expect(Promise.race([outcome, 'nothing'])).resolves.toBe('nothing');
  });

  test('is spoken directly to the servers that a proxy is not for, and in clear text nothing goes through it', async () => {
    await using proxy = await startForwardProxy();
    const served = await serve((socket) => socket.write(hello), tls);
    const clear = await serve((socket) => socket.write(hello));
    trust();
    const around = { url: proxy.url, except: 'example.com, 127.0.0.1' };
    const clients = [
      pool(served.url.replace('http:', 'https:'), { proxy: around }),
      pool(clear.url, { proxy: around }),
    ];
    for (const client of clients) {
      for (let time = 0; time < 2; time++) expect(await call(client).outcome).toMatchObject({ body: 'hello' });
    }
    expect([served.sockets, clear.sockets].map((sockets) => sockets.length)).toEqual([1, 1]);
    expect(proxy.asked).toEqual([]);
  });

  test.each([
    ['HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n', /407/],
    ['', /^no connection in time$/],
  ])(
    'is not spoken when a proxy answers %j: the call is refused, and without credentials in what it says',
    async (answer, said) => {
      await using proxy = await startForwardProxy();
      proxy.answer = answer;
      const client = pool('https://localhost:9/v1', {
        connectTimeoutMs: answer === '' ? 200 : 30_000,
        proxy: { url: proxy.url.replace('//', '//user:password@'), except: '' },
      });
      const { failure } = await call(client).outcome;
      expect(failure?.kind).toBe('refused');
      expect(failure?.message).toMatch(said);
      expect(failure?.message).not.toContain('password');
    },
  );

  test('is not spoken without its proxy: the call is refused', async () => {
    const client = pool('https://localhost:9/v1', { proxy: { url: 'http://127.0.0.1:9', except: '' } });
    expect((await call(client).outcome).failure).toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('ECONNREFUSED'),
    });
  });
});
