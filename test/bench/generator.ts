import { connect, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { MessageReader } from './message-reader.ts';
import type { BenchRequest, Expected } from './workloads.ts';

// The load generator: a separate process that takes one Load after another as an IPC message and answers each with a LoadResult.

export type Load = {
  port: number;
  requests: readonly BenchRequest[];
  /** Header lines of every request, each with its CRLF. */
  headers: string;
  /** Bearer tokens, used in turn; at least one. */
  tokens: readonly string[];
  connections: number;
  seconds: number;
  /**
   * Undefined for a closed loop, in which each connection sends again once it was answered. Otherwise requests per second of an open loop:
   * they leave on time whether or not earlier ones were answered, and latency is counted from when a request was due.
   */
  rate?: number;
  /** Whether a 503 is also a valid answer: refusals are counted separately. */
  mayRefuse?: boolean;
  /** Closed loop: ends after this many requests instead of after `seconds`. */
  count?: number;
};

export type LoadResult = {
  requests: number;
  wrong: number;
  /** An example of the wrong answers, for people. */
  wrongAnswer: string;
  /** From the first request to the last answer. */
  elapsedMs: number;
  /**
   * Until the whole answer, and until the first byte of its body: from when each request was due (open loop) or sent (if refusals are
   * valid).
   */
  latenciesMs: number[];
  firstBytesMs: number[];
  /** The same for refusals, from when each request was sent. */
  refusalsMs: number[];
  /** Open loop: how late requests left, which is the generator's own fault if connections are free. */
  latenessMs: number[];
  /** Open loop: a whole second's requests were waiting for a connection, so nothing can be said except that the load is too high. */
  overloaded: boolean;
};

function run(load: Load): Promise<LoadResult> {
  const { promise, resolve, reject } = Promise.withResolvers<LoadResult>();
  const result: LoadResult = {
    requests: 0,
    wrong: 0,
    wrongAnswer: '',
    elapsedMs: 0,
    latenciesMs: [],
    firstBytesMs: [],
    refusalsMs: [],
    latenessMs: [],
    overloaded: false,
  };
  const prepared = load.requests.map((request) => prepare(request, load));
  const startMs = performance.now();
  const stopAtMs = startMs + load.seconds * 1_000;
  let taken = 0;
  let open = 0;
  const idle: Connection[] = [];
  /** When the requests that wait for a connection were due. */
  const due: number[] = [];
  let pacer: Worker | undefined;
  let over = false;

  type Connection = {
    socket: Socket;
    reader: MessageReader;
    expected: Expected;
    dueMs: number;
    sentMs: number;
    sawBody: boolean;
    busy: boolean;
  };

  const mayTake = (): boolean => {
    if (over || load.rate !== undefined) return false;
    return load.count === undefined ? performance.now() < stopAtMs : taken < load.count;
  };
  const send = (connection: Connection, dueMs: number): void => {
    const { expected, bytesFor } = prepared[taken % prepared.length]!;
    connection.expected = expected;
    connection.dueMs = dueMs;
    if (load.mayRefuse) connection.sentMs = performance.now();
    connection.sawBody = false;
    connection.busy = true;
    connection.socket.write(bytesFor(load.tokens[taken % load.tokens.length]!));
    taken += 1;
  };
  const finishWhenIdle = (): void => {
    if (!over || idle.length < open || due.length > 0) return;
    result.elapsedMs = performance.now() - startMs;
    pacer?.terminate();
    for (const { socket } of idle) socket.destroy();
    resolve(result);
  };
  const wrong = (text: string): void => {
    result.wrong += 1;
    result.wrongAnswer ||= text.slice(0, 2_000);
  };
  const answered = (connection: Connection): void => {
    result.requests += 1;
    connection.busy = false;
    const waitingSinceMs = due.shift();
    if (waitingSinceMs !== undefined || mayTake()) {
      send(connection, waitingSinceMs ?? 0);
      return;
    }
    if (load.rate === undefined) over = true;
    idle.push(connection);
    finishWhenIdle();
  };

  const drive = (): void => {
    const socket = connect({ port: load.port, host: '127.0.0.1', noDelay: true });
    const connection: Connection = {
      socket,
      reader: new MessageReader(),
      expected: prepared[0]!.expected,
      dueMs: 0,
      sentMs: 0,
      sawBody: false,
      busy: false,
    };
    socket.on('connect', () => {
      open += 1;
      if (load.rate !== undefined) idle.push(connection);
      else if (mayTake()) send(connection, 0);
      else answered(connection);
      if (open === load.connections && load.rate !== undefined) pacer ??= startPacer(load.rate, load.seconds, arrive);
    });
    socket.on('data', (data: Buffer) => {
      const message = connection.reader.push(data);
      if (load.rate !== undefined && !connection.sawBody && (message !== undefined || connection.reader.hasBody)) {
        connection.sawBody = true;
        result.firstBytesMs.push(performance.now() - connection.dueMs);
      }
      if (message === undefined) return;
      const { head, body } = message;
      if (load.mayRefuse && head.startsWith('HTTP/1.1 503 ')) {
        result.refusalsMs.push(performance.now() - connection.sentMs);
        // Like the official clients, a refused connection waits as long as it was told to.
        setTimeout(answered, 1_000 * Number(/\r\nretry-after: (\d+)/i.exec(head)?.[1] ?? 0), connection);
        return;
      }
      if (load.rate !== undefined) result.latenciesMs.push(performance.now() - connection.dueMs);
      else if (load.mayRefuse) result.latenciesMs.push(performance.now() - connection.sentMs);
      if (!isRight(head, body, connection.expected)) wrong(`${head}\n\n${body.toString('utf8')}`);
      answered(connection);
    });
    socket.on('error', reject);
    socket.on('close', () => {
      if (connection.busy) return reject(new Error('a connection was closed before its request was answered'));
      // A server may close a connection that was idle for some seconds.
      const at = idle.indexOf(connection);
      if (at < 0 || result.elapsedMs > 0) return;
      idle.splice(at, 1);
      open -= 1;
      if (over) finishWhenIdle();
      else drive();
    });
  };

  /** A request is due, or null after the last one. */
  const arrive = (dueMs: number | null): void => {
    if (dueMs === null) {
      over = true;
      finishWhenIdle();
      return;
    }
    if (over) return;
    const connection = idle.pop();
    if (connection !== undefined) {
      result.latenessMs.push(performance.now() - dueMs);
      send(connection, dueMs);
      return;
    }
    due.push(dueMs);
    if (due.length <= load.rate!) return;
    result.overloaded = true;
    due.length = 0;
    over = true;
  };

  for (let index = 0; index < load.connections; index += 1) drive();
  return promise;
}

/** With one token the bytes are prepared once; with many, each time. */
function prepare({ path, body, expected }: BenchRequest, { headers, tokens }: Load) {
  const before = `POST ${path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n${headers}authorization: Bearer `;
  const after = `\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  const once = tokens.length === 1 ? Buffer.from(before + tokens[0] + after) : undefined;
  return { expected, bytesFor: (token: string) => once ?? Buffer.from(before + token + after) };
}

function isRight(head: string, body: Buffer, { status, text, times, stream }: Expected): boolean {
  if (!head.startsWith(`HTTP/1.1 ${status} `)) return false;
  if (stream === true && !body.subarray(-24).toString('latin1').trimEnd().endsWith('data: [DONE]')) return false;
  let found = 0;
  for (let at = body.indexOf(text); at >= 0; at = body.indexOf(text, at + text.length)) found += 1;
  return times === undefined ? found > 0 : found === times;
}

/**
 * Says when each request is due, from a thread that sleeps in between: the event loop's timers have only whole milliseconds. The thread
 * reads its own clock.
 */
function startPacer(rate: number, seconds: number, arrive: (dueMs: number | null) => void): Worker {
  const source = `
    const { parentPort, workerData: { startMs, everyMs, count } } = require('node:worker_threads');
    const cell = new Int32Array(new SharedArrayBuffer(4));
    const now = () => performance.timeOrigin + performance.now();
    for (let index = 0; index < count; index += 1) {
      const dueMs = startMs + index * everyMs;
      const waitMs = dueMs - now();
      if (waitMs > 0) Atomics.wait(cell, 0, 0, waitMs);
      parentPort.postMessage(dueMs);
    }
    parentPort.postMessage(null);`;
  const startMs = performance.timeOrigin + performance.now() + 100;
  const workerData = { startMs, everyMs: 1_000 / rate, count: Math.round(rate * seconds) };
  const worker = new Worker(source, { eval: true, workerData });
  worker.on('message', (dueMs: number | null) => arrive(dueMs === null ? null : dueMs - performance.timeOrigin));
  return worker;
}

// The process that started this one may have been killed.
process.on('disconnect', () => process.exit());
process.on('message', (load: Load) => {
  run(load).then(
    (result) => process.send!({ result }),
    (error) => process.send!({ error: String(error) }),
  );
});
