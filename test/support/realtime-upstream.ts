import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import type { TestGatewayOptions } from './gateway.ts';
import { type InferenceBench, startInferenceBench } from './inference.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests read events of every shape; the assertions are the types.
type Event = any;

type RealtimeUpstream = AsyncDisposable & {
  /** Including /v1. */
  url: string;
  /** What clients said, in order; one list per connection. */
  connections: { request: IncomingMessage; said: Event[]; socket: WebSocket; closed: boolean }[];
  /** The usage in completed events; null for none. */
  usage: object | null;
  /** Says events to the client that connected last. */
  tell(...events: object[]): void;
};

const usualUsage = { type: 'tokens', total_tokens: 15, input_tokens: 10, output_tokens: 5 };

/** An upstream that speaks a realtime protocol as published: each commit is transcribed to its length in bytes. */
async function startRealtimeUpstream(dialect: 'openai' | 'vllm'): Promise<RealtimeUpstream> {
  const server = createServer((request, response) => {
    const found = request.url === '/v1/models';
    response.writeHead(found ? 200 : 404, { 'content-type': 'application/json' }).end('{"data":[]}');
  });
  const sockets = new WebSocketServer({ server });
  const upstream: RealtimeUpstream = {
    url: '',
    connections: [],
    usage: usualUsage,
    tell(...events) {
      for (const event of events) upstream.connections.at(-1)!.socket.send(JSON.stringify(event));
    },
    async [Symbol.asyncDispose]() {
      for (const client of sockets.clients) client.terminate();
      sockets.close();
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  sockets.on('connection', (socket, request) => {
    const connection = { request, said: [] as Event[], socket, closed: false };
    upstream.connections.push(connection);
    socket.on('close', () => {
      connection.closed = true;
    });
    const say = (event: object): void => socket.send(JSON.stringify({ event_id: 'event_upstream', ...event }));
    const speak = dialect === 'openai' ? openaiSpeaker(say, upstream) : vllmSpeaker(say);
    say({ type: 'session.created', session: { id: 'sess_upstream' } });
    socket.on('message', (data) => {
      const event = JSON.parse(data.toString()) as Event;
      connection.said.push(event);
      speak(event);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  upstream.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return upstream;
}

/** With an upstream of each dialect, which are as they were at first when the bench is renewed. */
export type RealtimeBench = InferenceBench & { openai: RealtimeUpstream; vllm: RealtimeUpstream };

/** A gateway in front of upstreams of realtime sessions: the models `relay` and `relay/two:x` on OpenAI's, `vllm` on vLLM's. */
export async function startRealtimeBench(options?: TestGatewayOptions): Promise<RealtimeBench> {
  const bench = await startInferenceBench(options);
  const openai = await startRealtimeUpstream('openai');
  const vllm = await startRealtimeUpstream('vllm');
  for (const [model, { url: base_url }, dialect] of [
    ['relay', openai, 'openai'],
    ['relay/two:x', openai, 'openai'],
    ['vllm', vllm, 'vllm'],
  ] as const) {
    await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', { model, base_url, upstream_model: `${model}-upstream`, dialect });
  }
  const { renew, [Symbol.asyncDispose]: close } = bench;
  return Object.assign(bench, {
    openai,
    vllm,
    async renew() {
      await renew();
      for (const upstream of [openai, vllm]) {
        upstream.connections.length = 0;
        upstream.usage = usualUsage;
      }
    },
    async [Symbol.asyncDispose]() {
      await close();
      await openai[Symbol.asyncDispose]();
      await vllm[Symbol.asyncDispose]();
    },
  });
}

/** 100 ms of PCM with this many samples a second. */
const commitBytesMin = (rate: number) => (rate / 10) * 2;

function openaiSpeaker(say: (event: object) => void, upstream: RealtimeUpstream): (event: Event) => void {
  let bytes = 0;
  let rate = 24_000;
  return (event) => {
    switch (event.type) {
      case 'session.update':
        // OpenAI's takes PCM at 24 kHz alone.
        if (
          event.session.audio.input.noise_reduction?.type === 'refused' ||
          event.session.audio.input.format.rate > 24_000
        )
          say({
            type: 'error',
            error: { type: 'invalid_request_error', message: 'refused', event_id: event.event_id },
          });
        else {
          ({ rate = rate } = event.session.audio.input.format);
          say({ type: 'session.updated', session: event.session });
        }
        return;
      case 'input_audio_buffer.append':
        bytes += Buffer.from(event.audio, 'base64').length;
        return;
      case 'input_audio_buffer.clear':
        bytes = 0;
        say({ type: 'input_audio_buffer.cleared' });
        return;
      case 'input_audio_buffer.commit': {
        // As OpenAI's: what was heard stays for the next commit.
        if (bytes < commitBytesMin(rate)) {
          say({
            type: 'error',
            error: { type: 'invalid_request_error', message: 'too short', event_id: event.event_id },
          });
          return;
        }
        const item_id = `item_${randomUUID()}`;
        const text = `heard ${bytes} bytes`;
        bytes = 0;
        const of = 'conversation.item.input_audio_transcription';
        say({ type: 'input_audio_buffer.committed', item_id, previous_item_id: null });
        say({ type: 'conversation.item.added', item: { id: item_id } });
        for (const delta of text.split(/(?<= )/)) say({ type: `${of}.delta`, item_id, content_index: 0, delta });
        const usage = upstream.usage === null ? {} : { usage: upstream.usage };
        say({ type: `${of}.completed`, item_id, content_index: 0, transcript: text, ...usage });
      }
    }
  };
}

function vllmSpeaker(say: (event: object) => void): (event: Event) => void {
  let bytes = 0;
  let isGenerating = false;
  return (event) => {
    switch (event.type) {
      case 'input_audio_buffer.append':
        bytes += Buffer.from(event.audio, 'base64').length;
        if (isGenerating) say({ type: 'transcription.delta', delta: `${bytes} ` });
        return;
      case 'input_audio_buffer.commit':
        isGenerating = true;
        if (event.final !== true) return;
        say({
          type: 'transcription.done',
          text: `heard ${bytes} bytes`,
          usage: { prompt_tokens: 20, completion_tokens: 4, total_tokens: 24 },
        });
    }
  };
}
