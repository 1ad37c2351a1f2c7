import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import fc from 'fast-check';
import { Pool } from 'undici';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { trials, trialTimeoutMs } from '../../bytes/fixtures/json-text.ts';
import { Http1Pool } from './http1-pool.ts';

/** What the server writes, piece by piece. */
let pieces: readonly Buffer[] = [];
let closes = false;
const server = createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => {});
  socket.on('data', (bytes) => {
    // undici may write a head and its body separately.
    if (bytes.at(-1) === 0x7d) answer(socket, pieces, closes);
  });
});
let own: Http1Pool;
let undici: Pool;

beforeAll(async () => {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  own = new Http1Pool({ base: new URL(origin), apiKey: undefined, connectTimeoutMs: 30_000 });
  undici = new Pool(origin, { pipelining: 1, connections: 1 });
});
afterAll(async () => {
  own.close();
  await undici.destroy();
  server.close();
});

function answer(socket: Socket, [piece, ...rest]: readonly Buffer[], isLast: boolean): void {
  if (piece === undefined) {
    if (isLast) socket.end();
    return;
  }
  socket.write(piece);
  setImmediate(() => answer(socket, rest, isLast));
}

type Seen = { status: number; header(name: string): unknown; body: string } | 'failed';

async function byUndici(): Promise<Seen> {
  try {
    const { statusCode, headers, body } = await undici.request({ method: 'POST', path: '/x', body: '{}' });
    const bytes = Buffer.from(await body.arrayBuffer());
    return { status: statusCode, header: (name) => headers[name], body: bytes.toString('latin1') };
  } catch {
    return 'failed';
  }
}

const byOwn = (): Promise<Seen> =>
  new Promise((resolve) => {
    let seen: Exclude<Seen, 'failed'>;
    own.send(
      {
        operation: Operation.CHAT_COMPLETIONS,
        path: '/x',
        requestId: '',
        contentType: 'application/json',
        body: [Buffer.from('{}')],
        headTimeoutMs: 60_000,
        idleTimeoutMs: 60_000,
      },
      {
        onHead: (head) => {
          seen = { status: head.status, header: (name) => head.header(name), body: '' };
        },
        onData: (chunk) => {
          seen.body += Buffer.from(chunk).toString('latin1');
        },
        onEnd: () => resolve(seen),
        onError: () => resolve('failed'),
      },
    );
  });

function split(text: string, cuts: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text, 'latin1');
  const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return places.slice(1).map((end, index) => bytes.subarray(places[index]!, end));
}

const cuts = fc.array(fc.nat({ max: 2_000 }), { maxLength: 4 });

test(
  'any valid answer, split anywhere, is read as undici reads it from the same server',
  async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(200, 201, 204, 304, 400, 429, 500, 503),
        fc.stringMatching(/^[!-~]([ -~]{0,40}[!-~])?$/),
        fc.array(fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 80 }), { maxLength: 5 }),
        fc.constantFrom('length', 'chunked', 'close'),
        // undici treats an unrequested 100 as a failure.
        fc.constantFrom('', 'HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'),
        fc.constantFrom('', ';a', ';a=b'),
        fc.constantFrom('', 'x-sum: 1\r\n'),
        cuts,
        async (status, value, chunks, kind, before, extension, trailer, places) => {
          const bodiless = status === 204 || status === 304;
          const body = bodiless ? '' : chunks.join('');
          const framing = {
            length: `Content-Length: ${body.length}\r\n`,
            chunked: 'transfer-encoding: chunked\r\n',
            close: '',
          };
          const written = {
            length: body,
            close: body,
            chunked: `${chunks.map((chunk) => `${chunk.length.toString(16)}${extension}\r\n${chunk}\r\n`).join('')}0\r\n${trailer}\r\n`,
          };
          closes = kind === 'close' && !bodiless;
          const head = `HTTP/1.1 ${status} Any\r\nX-Any: ${value}\r\n${bodiless ? '' : framing[kind]}\r\n`;
          pieces = split(`${before}${head}${bodiless ? '' : written[kind]}`, places);
          const mine = await byOwn();
          const theirs = await byUndici();
          if (mine === 'failed' || theirs === 'failed')
            throw new Error(`own ${String(mine)}, undici ${String(theirs)}`);
          expect([mine.status, mine.body]).toEqual([theirs.status, theirs.body]);
          expect([mine.status, mine.body, mine.header('x-any')]).toEqual([status, body, value]);
          expect(mine.header('x-any')).toBe(theirs.header('x-any'));
        },
      ),
      trials,
    );
  },
  trialTimeoutMs,
);

test(
  'garbage ends in an answer or an error',
  async () => {
    const noise = fc.constantFrom(
      ...[
        'HTTP/1.1 200 OK\r\n',
        'content-length: 2\r\n',
        'transfer-encoding: chunked\r\n',
        '\r\n',
        '\n',
        '0',
        '2',
        'ab',
        '\0',
      ],
    );
    await fc.assert(
      fc.asyncProperty(fc.array(noise, { maxLength: 10 }), cuts, async (parts, places) => {
        pieces = split(parts.join(''), places);
        closes = true;
        const seen = await byOwn();
        expect(seen === 'failed' || seen.status === 200).toBe(true);
      }),
      { ...trials, numRuns: trials.numRuns / 10 },
    );
  },
  trialTimeoutMs,
);
