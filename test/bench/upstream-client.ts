/**
 * CPU time of the gateway's own upstream client compared with undici's dispatch, against the same server: `node
 * test/bench/upstream-client.ts [rounds]`. Both run in this process in turn, so that other load on the machine affects both; the server is
 * a separate thread, whose time is not counted.
 */
import { createServer } from 'node:net';
import { stdout } from 'node:process';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { Pool } from 'undici';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { Http1Pool } from '../../services/models/upstream/http1/http1-pool.ts';
import type { UpstreamHandler } from '../../services/models/upstream/upstream.ts';

const rounds = Number(process.argv[2] ?? 21);
const connections = 64;
const requestsPerRound = 3_000;
const chunksPerStream = 100;
const request = Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x'.repeat(800) }] }));
const answer = JSON.stringify({ id: 'c', choices: [{ message: { content: 'y'.repeat(300) } }] });
const event = `data: ${JSON.stringify({ id: 'c', choices: [{ delta: { content: 'word ' } }] })}\n\n`;

const wholeAnswer = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ndate: Sat, 21 Nov 2026 10:00:00 GMT\r\ncontent-length: ${answer.length}\r\n\r\n${answer}`;
const streamHead = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
const chunk = `${event.length.toString(16)}\r\n${event}\r\n`;

/** Answers each request when its last byte, a brace, has arrived; streams send one event per turn of the event loop. */
function serve(): void {
  const server = createServer({ noDelay: true }, (socket) => {
    let isStream: boolean | undefined;
    socket.on('error', () => {});
    socket.on('data', (bytes) => {
      isStream ??= bytes.includes('POST /stream');
      if (bytes.at(-1) !== 0x7d) return;
      if (!isStream) socket.write(wholeAnswer);
      else {
        socket.write(streamHead);
        let left = chunksPerStream;
        const next = (): void => {
          if (left-- === 0) socket.write('0\r\n\r\n');
          else {
            socket.write(chunk);
            setImmediate(next);
          }
        };
        setImmediate(next);
      }
      isStream = undefined;
    });
  });
  server.listen(0, '127.0.0.1', () => parentPort!.postMessage(server.address()));
}

type Counted = { chunks: number };
type Client = (path: string, counted: Counted, done: () => void) => void;

function clients(origin: string): Record<'undici' | 'own', Client> {
  const pool = new Pool(origin, { connections, pipelining: 1 });
  const headers = ['authorization', 'Bearer key', 'content-type', 'application/json', 'accept', '*/*'];
  const own = new Http1Pool({ base: new URL(origin), apiKey: 'key', connectTimeoutMs: 5_000 });
  return {
    undici: (path, counted, done) => {
      pool.dispatch(
        { method: 'POST', path, headers, body: request, headersTimeout: 60_000, bodyTimeout: 60_000 },
        {
          onRequestStart() {},
          onResponseStart(_controller, status) {
            if (status !== 200) throw new Error(`status ${status}`);
          },
          onResponseData() {
            counted.chunks++;
          },
          onResponseEnd: done,
          onResponseError(_controller, error) {
            throw error;
          },
        },
      );
    },
    own: (path, counted, done) => {
      const handler: UpstreamHandler = {
        onHead({ status }) {
          if (status !== 200) throw new Error(`status ${status}`);
        },
        onData() {
          counted.chunks++;
        },
        onEnd: done,
        onError: ({ message }) => {
          throw new Error(message);
        },
      };
      own.send(
        {
          operation: Operation.CHAT_COMPLETIONS,
          path,
          requestId: '',
          contentType: 'application/json',
          body: [request],
          headTimeoutMs: 60_000,
          idleTimeoutMs: 60_000,
        },
        handler,
      );
    },
  };
}

/** CPU microseconds per request, and how many pieces arrived for each. */
function run(client: Client, path: string, total: number): Promise<{ us: number; pieces: number }> {
  const counted: Counted = { chunks: 0 };
  const start = process.threadCpuUsage();
  let begun = 0;
  let ended = 0;
  return new Promise((resolve) => {
    const next = (): void => {
      if (begun === total) return;
      begun++;
      client(path, counted, () => {
        if (++ended === total) {
          const { user, system } = process.threadCpuUsage(start);
          resolve({ us: (user + system) / total, pieces: counted.chunks / total });
        } else setImmediate(next);
      });
    };
    for (let index = 0; index < connections; index++) next();
  });
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

if (!isMainThread) serve();
else {
  const server = new Worker(new URL(import.meta.url));
  const { port } = await new Promise<{ port: number }>((resolve) => server.once('message', resolve));
  const both = clients(`http://127.0.0.1:${port}`);
  for (const [path, total] of [
    ['/whole', requestsPerRound],
    ['/stream', requestsPerRound / 30],
  ] as const) {
    const seen = { undici: [] as number[], own: [] as number[] };
    const pieces = { undici: [] as number[], own: [] as number[] };
    for (let round = -2; round < rounds; round++) {
      // Each goes first as often as the other.
      for (const name of (round & 1) === 0 ? (['undici', 'own'] as const) : (['own', 'undici'] as const)) {
        const result = await run(both[name], path, total);
        if (round < 0) continue;
        seen[name].push(result.us);
        pieces[name].push(result.pieces);
      }
    }
    const ratios = seen.own.map((us, round) => us / seen.undici[round]!);
    const per = path === '/whole' ? 1 : chunksPerStream;
    stdout.write(
      `${per === 1 ? 'request' : 'SSE chunk'}: undici ${(median(seen.undici) / per).toFixed(2)} µs, own ${(median(seen.own) / per).toFixed(2)} µs, ` +
        `ratio in pairs ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}), ` +
        `pieces an answer ${median(pieces.undici).toFixed(1)} and ${median(pieces.own).toFixed(1)}\n`,
    );
  }
  process.exit(0);
}
