import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { afterEach, expect } from 'vitest';
import { WebSocket } from 'ws';
import { waitFor } from './wait-for.ts';

// biome-ignore lint/suspicious/noExplicitAny: tests read events of every shape; the assertions are the types.
export type RealtimeEvent = { type: string; event_id: string; [field: string]: any };

export type RealtimeTalk = AsyncDisposable & {
  socket: WebSocket;
  events: RealtimeEvent[];
  /** The `x-request-id` of the answer to the upgrade. */
  requestId: string | undefined;
  /** The code and reason of the close, once it came. */
  closed: { code: number; reason: string } | null;
  say(event: object): void;
  /** The first event of a type, or the n-th, once it is there. */
  event(type: string, ordinal?: number): Promise<RealtimeEvent>;
  close(): Promise<{ code: number; reason: string }>;
};

export type RealtimeOptions = {
  key?: string;
  query?: string;
  protocols?: string[];
  headers?: Record<string, string>;
  prefix?: string;
};

/** A refusal to upgrade, with the HTTP response. */
export class UpgradeRefused extends Error {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  readonly body: any;

  constructor(response: IncomingMessage, text: string) {
    super(`refused with ${response.statusCode}`);
    this.status = response.statusCode!;
    this.headers = response.headers;
    this.body = JSON.parse(text);
  }
}

/** Opens a realtime session. Rejects with UpgradeRefused if it is refused. */
export async function openTalk(url: string, options: RealtimeOptions = {}): Promise<RealtimeTalk> {
  const { key, query = '?intent=transcription', protocols = [], headers = {}, prefix = '/v1' } = options;
  const socket = new WebSocket(`${url.replace('http', 'ws')}${prefix}/realtime${query}`, protocols, {
    headers: { ...(key === undefined ? undefined : { authorization: `Bearer ${key}` }), ...headers },
  });
  const events: RealtimeEvent[] = [];
  const talk: RealtimeTalk = {
    socket,
    events,
    requestId: undefined,
    closed: null,
    say: (event) => socket.send(JSON.stringify(event)),
    event: (type, ordinal = 1) =>
      waitFor(
        () => {
          const found = events.filter((event) => event.type === type)[ordinal - 1];
          if (found === undefined)
            throw new Error(events.map((event) => JSON.stringify(event).slice(0, 300)).join('\n'));
          return found;
        },
        { description: `event ${ordinal} of ${type}` },
      ),
    close: () => waitFor(() => talk.closed, { description: 'the close' }),
    async [Symbol.asyncDispose]() {
      socket.terminate();
    },
  };
  socket.on('upgrade', ({ headers }) => {
    talk.requestId = headers['x-request-id'] as string | undefined;
  });
  socket.on('message', (data) => events.push(JSON.parse(data.toString())));
  socket.on('close', (code, reason) => {
    talk.closed = { code, reason: reason.toString() };
  });
  await new Promise<void>((resolve, reject) => {
    socket.on('open', resolve);
    socket.on('error', reject);
    socket.on('unexpected-response', async (_request, response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (piece) => {
        text += piece;
      });
      await once(response, 'end');
      reject(new UpgradeRefused(response, text));
    });
  });
  return talk;
}

/** Like openTalk, but what a test opens is closed after it. */
export function talksOfTests(): typeof openTalk {
  const open: RealtimeTalk[] = [];
  afterEach(() => {
    for (const { socket } of open.splice(0)) socket.terminate();
  });
  return async (...options) => {
    const session = await openTalk(...options);
    open.push(session);
    return session;
  };
}

/** How opening a session is refused: fails if it is not, or if the refusal is not a complete HTTP response of the gateway. */
export async function upgradeRefusal(url: string, options: RealtimeOptions): Promise<UpgradeRefused> {
  const error = await openTalk(url, options).then(
    (session) => {
      session.socket.terminate();
      return null;
    },
    (thrown) => thrown,
  );
  expect(error).toBeInstanceOf(UpgradeRefused);
  const refused = error as UpgradeRefused;
  expect(refused.headers.connection).toBe('close');
  expect(Number(refused.headers['content-length'])).toBeGreaterThan(0);
  expect(refused.headers['x-request-id']).toMatch(/^req_/);
  expect(Object.keys(refused.body.error).sort()).toEqual(['code', 'message', 'param', 'type']);
  return refused;
}

/** The types of all events of a session in which one utterance was heard and transcribed. */
export const utteranceEvents = [
  'session.created',
  'session.updated',
  'input_audio_buffer.speech_started',
  'input_audio_buffer.speech_stopped',
  'input_audio_buffer.committed',
  'conversation.item.added',
  'conversation.item.done',
  'conversation.item.input_audio_transcription.delta',
  'conversation.item.input_audio_transcription.completed',
];

/** 16-bit samples at 24 kHz: a tone as loud as speech. */
export const tone = (ms: number): Buffer => samples(ms, (index) => Math.sin(index / 8) * 8_000);
/** Faint noise, as in a quiet room. */
export const quiet = (ms: number): Buffer => samples(ms, (index) => ((index * 7919) % 13) - 6);

function samples(ms: number, at: (index: number) => number): Buffer {
  const bytes = Buffer.alloc(Math.round((24_000 * ms) / 1000) * 2);
  for (let index = 0; index < bytes.length / 2; index++) bytes.writeInt16LE(Math.round(at(index)), index * 2);
  return bytes;
}

export const append = (audio: Buffer): object => ({
  type: 'input_audio_buffer.append',
  audio: audio.toString('base64'),
});

/** A session.update in the GA shape. */
export const sessionUpdate = (model: string | null, input: object = {}): object => ({
  type: 'session.update',
  session: {
    type: 'transcription',
    audio: { input: { ...(model === null ? undefined : { transcription: { model } }), ...input } },
  },
});
