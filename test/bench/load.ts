import { connect, type Socket } from 'node:net';

/** What a round of load came to. */
export type LoadResult = { requests: number; wrong: number };

/**
 * Sends one request over and over on each of `connections` keep-alive connections for `durationMs`, each as soon as the one
 * before it was answered. An answer is right when its status is 200 and its end is what `endsWith` says.
 */
export async function load(options: {
  url: string;
  path: string;
  token: string;
  body: string;
  connections: number;
  durationMs: number;
  endsWith: string;
}): Promise<LoadResult> {
  const { hostname, port } = new URL(options.url);
  const head = `POST ${options.path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer ${options.token}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(options.body)}\r\n\r\n`;
  const request = Buffer.from(head + options.body);
  const result: LoadResult = { requests: 0, wrong: 0 };
  const stopAtMs = performance.now() + options.durationMs;
  await Promise.all(Array.from({ length: options.connections }, () => drive(connect(Number(port), hostname))));
  return result;

  function drive(socket: Socket): Promise<void> {
    return new Promise((resolve, reject) => {
      let answer: Buffer[] = [];
      let tail = '';
      socket.setNoDelay(true);
      socket.on('connect', () => socket.write(request));
      socket.on('error', reject);
      socket.on('close', () => resolve());
      socket.on('data', (data: Buffer) => {
        answer.push(data);
        // Enough of the last bytes to see the end of the body and of its last chunk.
        tail = (tail + data.toString('latin1')).slice(-64);
        if (!isWhole(answer, tail)) return;
        const start = answer[0]!.toString('latin1', 0, 15);
        if (!start.startsWith('HTTP/1.1 200') || !tail.includes(options.endsWith)) result.wrong += 1;
        result.requests += 1;
        answer = [];
        tail = '';
        if (performance.now() < stopAtMs) socket.write(request);
        else socket.end();
      });
    });
  }
}

/** Whether an answer has arrived: a chunked one by its last chunk, another by its Content-Length. */
function isWhole(answer: Buffer[], tail: string): boolean {
  if (tail.endsWith('\r\n0\r\n\r\n')) return true;
  const first = answer[0]!.toString('latin1');
  const bodyAt = first.indexOf('\r\n\r\n') + 4;
  const length = /content-length: (\d+)/i.exec(first)?.[1];
  if (bodyAt === 3 || length === undefined) return false;
  return answer.reduce((sum, part) => sum + part.byteLength, 0) >= bodyAt + Number(length);
}
