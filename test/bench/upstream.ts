import { createServer, type Socket } from 'node:net';
import { MessageReader } from './message-reader.ts';
import { chunksPerStream, failureMark, marks, models } from './workloads.ts';

// An upstream that costs next to nothing: answers prepared as bytes, on bare sockets. Streams have 100 events: one every 5 ms
// (`bench-paced`), or ten in one write every millisecond (`bench-bursts`). Each event is an HTTP chunk, as vLLM sends them.

const id = 'chatcmpl-benchmark-0123456789abcdef';
const common = { id, created: 1_790_000_000, model: 'bench' };
const usage = { prompt_tokens: 180, completion_tokens: 98, total_tokens: 278 };

function whole(status: string, body: object): Buffer {
  const text = JSON.stringify(body);
  return Buffer.from(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  );
}

const message = { role: 'assistant', content: `Hello! ${marks.answer}` };
const completion = whole('200 OK', {
  ...common,
  object: 'chat.completion',
  choices: [{ index: 0, message, logprobs: null, finish_reason: 'stop' }],
  usage: { prompt_tokens: 180, completion_tokens: 9, total_tokens: 189, prompt_tokens_details: { cached_tokens: 0 } },
});
const refusal = whole('400 Bad Request', {
  error: { message: `Refused ${marks.failure}.`, type: 'invalid_request_error', param: null, code: null },
});
/** 1,536 little-endian floats of four bytes; the last six bytes read as the mark in base64. */
const vector = Buffer.concat([Buffer.alloc(1_536 * 4 - 6, 0x3c), Buffer.from(marks.vector, 'base64')]).toString(
  'base64',
);
const embeddings = whole('200 OK', {
  object: 'list',
  data: Array.from({ length: 64 }, (_, index) => ({ object: 'embedding', index, embedding: vector })),
  model: models.embed,
  usage: { prompt_tokens: 768, total_tokens: 768 },
});
const list = whole('200 OK', {
  object: 'list',
  data: Object.values(models).map((model) => ({ id: model, object: 'model' })),
});

function event(data: object | string): Buffer {
  const text = `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
  return Buffer.from(`${text.length.toString(16)}\r\n${text}\r\n`);
}
const delta = (fields: object, finishReason: string | null): Buffer =>
  event({
    ...common,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta: fields, logprobs: null, finish_reason: finishReason }],
  });
const events = [
  delta({ role: 'assistant', content: '' }, null),
  ...Array.from({ length: chunksPerStream - 3 }, () => delta({ content: marks.delta }, null)),
  delta({}, 'stop'),
  Buffer.concat([
    event({ ...common, object: 'chat.completion.chunk', choices: [], usage }),
    event('[DONE]'),
    Buffer.from('0\r\n\r\n'),
  ]),
];
const streamHead = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n',
);

/** How a model streams: the contents of each write, and the milliseconds in between. */
type Pace = { writes: Buffer[]; everyMs: number };
const paces: Record<'paced' | 'bursts', Pace> = {
  paced: { writes: events, everyMs: 5 },
  bursts: {
    writes: Array.from({ length: 10 }, (_, burst) => Buffer.concat(events.slice(burst * 10, burst * 10 + 10))),
    everyMs: 1,
  },
};

type Stream = { socket: Socket; pace: Pace; sent: number; nextMs: number };
const streams = new Set<Stream>();
let ticker: NodeJS.Timeout | undefined;

/** One timer for all streams, each of which keeps the phase at which it began. */
function tick(): void {
  const nowMs = performance.now();
  for (const stream of streams) {
    if (stream.nextMs > nowMs) continue;
    stream.nextMs += stream.pace.everyMs;
    stream.socket.write(stream.pace.writes[stream.sent]!);
    stream.sent += 1;
    if (stream.sent === stream.pace.writes.length || stream.socket.destroyed) streams.delete(stream);
  }
  if (streams.size > 0) return;
  clearInterval(ticker);
  ticker = undefined;
}

/** The first event is sent with the head, so that the time to the first token is the contender's alone. */
function stream(socket: Socket, pace: Pace): void {
  socket.write(Buffer.concat([streamHead, pace.writes[0]!]));
  streams.add({ socket, pace, sent: 1, nextMs: performance.now() + pace.everyMs });
  ticker ??= setInterval(tick, 1);
}

function answer(socket: Socket, head: string, whole: Buffer): void {
  // The model and the mark are in the first or last fields, in whatever order a contender writes them.
  const body = whole.length < 2_000 ? whole : Buffer.concat([whole.subarray(0, 1_000), whole.subarray(-1_000)]);
  if (head.startsWith('GET ')) socket.write(list);
  else if (body.includes(models.embed)) socket.write(embeddings);
  else if (body.includes(models.paced)) stream(socket, paces.paced);
  else if (body.includes(models.bursts)) stream(socket, paces.bursts);
  else if (body.includes(failureMark)) socket.write(refusal);
  else socket.write(completion);
}

const server = createServer({ noDelay: true }, (socket) => {
  const reader = new MessageReader();
  socket.on('data', (data: Buffer) => {
    const message = reader.push(data);
    if (message !== undefined) answer(socket, message.head, message.body);
  });
  socket.on('error', () => socket.destroy());
});
// The process that started this one may have been killed, which closes its end of the pipe.
process.stdin.resume().on('end', () => process.exit());
// Room for a gateway that opens a thousand connections at once: a refusal here would affect the measurement there.
server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 }, () =>
  process.stdout.write(`port ${(server.address() as { port: number }).port}\n`),
);
