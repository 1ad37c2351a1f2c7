import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { systemClock } from '#shared/clock.ts';
import type { Upstream, UpstreamExchange, UpstreamFailure, UpstreamRequest } from '../upstream.ts';
import { createSandbox } from './sandbox.ts';

/** What a test saw of one exchange, in order. */
export type Seen = {
  calls: ('head' | 'data' | 'end' | 'error')[];
  status: number;
  header(name: string): string | undefined;
  chunks: Uint8Array[];
  error: UpstreamFailure | undefined;
};

type Watch = { onChunk?(exchange: UpstreamExchange, seen: Seen): void } & Partial<UpstreamRequest>;

/** Starts an exchange; `over` resolves at its end, whether good or bad. */
export function start(upstream: Upstream, operation: Operation, body: unknown, watch: Watch = {}) {
  const seen: Seen = { calls: [], status: 0, header: () => undefined, chunks: [], error: undefined };
  const { onChunk, ...overrides } = watch;
  const { promise: over, resolve } = Promise.withResolvers<Seen>();
  const request: UpstreamRequest = {
    operation,
    path: '/',
    contentType: 'application/json',
    body: [body instanceof Uint8Array ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))],
    headTimeoutMs: 10_000,
    idleTimeoutMs: 10_000,
    ...overrides,
  };
  const exchange = upstream.send(request, {
    onHead(head) {
      seen.calls.push('head');
      seen.status = head.status;
      seen.header = (name) => head.header(name);
    },
    onData(chunk) {
      seen.calls.push('data');
      seen.chunks.push(chunk);
      onChunk?.(exchange, seen);
    },
    onEnd() {
      seen.calls.push('end');
      resolve(seen);
    },
    onError(error) {
      seen.calls.push('error');
      seen.error = error;
      resolve(seen);
    },
  });
  return { exchange, seen, over };
}

export const sandbox = createSandbox({ clock: systemClock });

export const bytesOf = (seen: Seen): Buffer => Buffer.concat(seen.chunks);

/** The JSON body of an answer with the expected status. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
export async function askJson(operation: Operation, body: unknown, status = 200, watch?: Watch): Promise<any> {
  const seen = await start(sandbox, operation, body, watch).over;
  const text = bytesOf(seen).toString();
  if (seen.status !== status)
    throw new Error(`expected status ${status}, got ${seen.status}: ${text || seen.error?.message}`);
  return JSON.parse(text);
}

/** The values of an SSE answer's data lines, `[DONE]` as a string. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
export async function askEvents(operation: Operation, body: unknown, watch?: Watch): Promise<any[]> {
  const seen = await start(sandbox, operation, body, watch).over;
  if (seen.status !== 200) throw new Error(`got ${seen.status}: ${bytesOf(seen)}`);
  return bytesOf(seen)
    .toString()
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => (line === 'data: [DONE]' ? '[DONE]' : JSON.parse(line.slice(6))));
}
