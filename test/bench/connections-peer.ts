// The other end of connections.ts, in its own process: an upstream that says a word each second, and the clients.
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { WebSocket } from 'ws';

export type Command =
  | { kind: 'open-streams' | 'open-sockets'; url: string; key: string; count: number }
  | { kind: 'open-stalled'; url: string; key: string }
  | { kind: 'close' };
export type Report = { kind: 'upstream'; url: string } | { kind: 'done' } | { kind: 'poured'; bytes: number };

const say = (report: Report): void => void process.send!(report);
const gibibyte = 1024 ** 3;
const chunk = (content: string): string =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta: { content } }] })}\n\n`;
const large = Buffer.from(chunk('x'.repeat(16 * 1024)).repeat(64));

let poured = 0;
const upstream = createServer(async (request, response) => {
  if (request.method === 'GET') return void response.end('{"object":"list","data":[{"id":"slow"},{"id":"endless"}]}');
  let body = '';
  for await (const piece of request) body += piece;
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  if (JSON.parse(body).model === 'endless') {
    while (poured < gibibyte && !response.destroyed) {
      poured += large.length;
      if (!response.write(large)) await Promise.race([once(response, 'drain'), once(response, 'close')]);
    }
    return;
  }
  response.write(chunk('Once'));
  const word = setInterval(() => response.write(chunk(' more')), 1_000);
  response.on('close', () => clearInterval(word));
});
await once(upstream.listen(0, '127.0.0.1'), 'listening');
say({ kind: 'upstream', url: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}` });

const closers: (() => void)[] = [];

/** Posts a streamed chat over its own socket; resolves with its first bytes. */
async function openStream(url: string, key: string, model: string, reads: boolean): Promise<void> {
  const { hostname, port } = new URL(url);
  const body = JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'Tell me a story.' }] });
  const socket = connect(Number(port), hostname);
  closers.push(() => socket.destroy());
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer ${key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const [first] = (await once(socket, 'data')) as [Buffer];
  if (!first.toString().startsWith('HTTP/1.1 200')) throw new Error(first.toString());
  if (reads) socket.on('data', () => {});
  else socket.pause();
}

async function openSocket(url: string, key: string): Promise<void> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/v1/realtime?model=sandbox-transcribe`, [], {
    headers: { authorization: `Bearer ${key}` },
  });
  closers.push(() => socket.terminate());
  // The session is established once it says so.
  await once(socket, 'message');
}

async function run(command: Command): Promise<void> {
  if (command.kind === 'close') {
    for (const close of closers.splice(0)) close();
    return;
  }
  const { url, key } = command;
  if (command.kind === 'open-stalled') {
    await openStream(url, key, 'endless', false);
    return;
  }
  const open = command.kind === 'open-streams' ? () => openStream(url, key, 'slow', true) : () => openSocket(url, key);
  for (let opened = 0; opened < command.count; opened += 50) {
    await Promise.all(Array.from({ length: Math.min(50, command.count - opened) }, open));
  }
}

process.on('message', async (command: Command) => {
  await run(command);
  say({ kind: 'done' });
});
setInterval(() => say({ kind: 'poured', bytes: poured }), 500);
