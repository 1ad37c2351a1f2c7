import { expect } from 'vitest';
import { type Answer, startTestGateway, type TestGateway } from './gateway.ts';
import { ManualClock } from './manual-clock.ts';
import { waitFor } from './wait-for.ts';
import { wavOf } from './wav.ts';

export const dayMs = 86_400_000;
/** The time on the gateway's clock: noon today. */
export const startMs = Math.floor(Date.now() / dayMs) * dayMs + dayMs / 2;
/** When models retire, unless a test says otherwise. */
export const sunsetMs = startMs + 10 * dayMs;
export const iso = (ms: number): string => new Date(ms).toISOString();

const form = (model: string, stream: boolean): FormData => {
  const data = new FormData();
  data.append('file', new Blob([wavOf(1)], { type: 'audio/wav' }), 'a.wav');
  data.append('model', model);
  if (stream) data.append('stream', 'true');
  return data;
};

/** A way in which a client comes across a model. */
type Surface = {
  operation: string;
  upstream: string;
  streams: boolean;
  send(model: string, stream: boolean): { method: string; path: string; body?: object };
};
/** A request with a JSON body. */
export const json =
  (path: string, fields: object): Surface['send'] =>
  (model, stream) => ({
    path,
    method: 'POST',
    body: { model, ...fields, ...(stream && { stream: true }) },
  });

/** All the surfaces in service.md, Model retirement surfaces. */
export const surfaces: Readonly<Record<string, Surface>> = {
  'chat completions': {
    operation: 'chat_completions',
    upstream: 'sandbox-chat',
    streams: true,
    send: json('/chat/completions', { messages: [{ role: 'user', content: 'Hi' }] }),
  },
  completions: {
    operation: 'completions',
    upstream: 'sandbox-chat',
    streams: true,
    send: json('/completions', { prompt: 'Hi' }),
  },
  embeddings: {
    operation: 'embeddings',
    upstream: 'sandbox-embed',
    streams: false,
    send: json('/embeddings', { input: 'Hi' }),
  },
  'image generations': {
    operation: 'images_generations',
    upstream: 'sandbox-image',
    streams: true,
    send: json('/images/generations', { prompt: 'A cat', size: '256x256' }),
  },
  'audio speech': {
    operation: 'audio_speech',
    upstream: 'sandbox-speech',
    streams: false,
    send: json('/audio/speech', { input: 'Hi', voice: 'alloy', response_format: 'wav' }),
  },
  'audio transcriptions': {
    operation: 'audio_transcriptions',
    upstream: 'sandbox-transcribe',
    streams: true,
    send: (model, stream) => ({ path: '/audio/transcriptions', method: 'POST', body: form(model, stream) }),
  },
  'audio translations': {
    operation: 'audio_translations',
    upstream: 'sandbox-transcribe',
    streams: false,
    send: (model) => ({ path: '/audio/translations', method: 'POST', body: form(model, false) }),
  },
  'GET model by id': {
    operation: 'chat_completions',
    upstream: 'sandbox-chat',
    streams: false,
    send: (model) => ({ path: `/models/${encodeURIComponent(model)}`, method: 'GET' }),
  },
};

/** RFC 8288 section 3: the links in one header, by their relation. */
export function linksOf(headers: Headers): Record<string, string> {
  const header = headers.get('link') ?? '';
  const links = [...header.matchAll(/<([^<>\s"]*)>((?:\s*;\s*[a-z-]+="[^"<>]*")+)(?:\s*,\s*|$)/g)];
  // There is nothing between or after the links.
  expect(links.map(([whole]) => whole).join('')).toBe(header);
  return Object.fromEntries(links.map(([, url, parameters]) => [/rel="([^"]*)"/.exec(parameters!)![1], url]));
}
/** The page of a retirement, which the Link names. */
export const pageOf = (model: string) => `http://gateway.test/retirements/${encodeURIComponent(model)}`;

export type RetirementBench = AsyncDisposable & {
  gateway: TestGateway;
  clock: ManualClock;
  /** Without limits on models. */
  key: string;
  /** The operator's session; `signIn` starts another, since sessions expire when the clock moves by days. */
  operator: string;
  signIn(): Promise<void>;
  /** Rate limits refill by the monotonic clock, which also stands still; the wall clock is not moved. */
  refillRateLimits(): void;
  /** An operator's call below /api/v1/admin. */
  admin(method: string, path: string, body?: unknown): Promise<Answer>;
  /** A surface's answer for a model. */
  request(surface: Surface, model: string, options?: { stream?: boolean; key?: string }): Promise<Answer>;
  /** A new model, served by a sandbox deployment; returns its name. */
  createModel(fields?: {
    operations?: string[];
    upstream?: string;
    visibility?: string;
    name?: string;
  }): Promise<string>;
  /** Announces a retirement, with a successor unless a note is given. */
  announce(model: string, fields?: Record<string, unknown>): Promise<Answer>;
  /** Like `announce`, but it must succeed, and waits until the edge knows. */
  announced(model: string, fields?: Record<string, unknown>): Promise<void>;
  /** Sets the date of an announced retirement, and waits until the edge knows. */
  dated(model: string, sunsetMs: number): Promise<void>;
  /** Waits for the edge, which hears of changes within a second, and shows what it knows in the headers of each answer. */
  edgeKnows(model: string, condition: (headers: Headers) => boolean): Promise<void>;
  /** Runs something at another time. */
  at<Value>(ms: number, work: () => Promise<Value>): Promise<Value>;
};

/** A gateway whose clock stands still, and what tests of retirements do with it. */
export async function startRetirementBench(): Promise<RetirementBench> {
  const clock = new ManualClock(startMs);
  const gateway = await startTestGateway({ clock });
  const operator = await gateway.login();
  const { key } = await gateway.createKey(operator);
  let made = 0;
  const bench: RetirementBench = {
    gateway,
    clock,
    key,
    operator,
    async signIn() {
      bench.operator = await gateway.login();
    },
    refillRateLimits() {
      const before = clock.now();
      clock.advance(60_000);
      clock.set(before);
    },
    admin: (method, path, body) => gateway.call(method, `/api/v1/admin${path}`, bench.operator, body),
    request(surface, model, options = {}) {
      const { method, path, body } = surface.send(model, options.stream ?? false);
      return gateway.call(method, `/v1${path}`, options.key ?? key, body);
    },
    async createModel(fields = {}) {
      made += 1;
      const name = fields.name ?? `acme/retiring-${made}:v1`;
      const { operations = ['chat_completions'], upstream = 'sandbox-chat', visibility = 'public' } = fields;
      const model = await bench.admin('POST', '/models', { name, operations, visibility });
      expect(model.status, model.text).toBe(201);
      const served = { model: name, dialect: 'sandbox', upstream_model: upstream };
      const deployment = await bench.admin('POST', '/deployments', served);
      expect(deployment.status, deployment.text).toBe(201);
      return name;
    },
    announce: (model, fields = {}) =>
      bench.admin('POST', '/retirements', {
        model,
        ...(fields.retirement_note === undefined && { replacement_model_name: 'sandbox-chat' }),
        ...fields,
      }),
    async announced(model, fields) {
      const answer = await bench.announce(model, fields);
      expect(answer.status, answer.text).toBe(201);
      await bench.edgeKnows(model, (headers) => headers.has('deprecation'));
    },
    async dated(model, sunsetMs) {
      const path = `/retirements/${encodeURIComponent(model)}`;
      const answer = await bench.admin('PATCH', path, { sunset_at: iso(sunsetMs) });
      expect(answer.status, answer.text).toBe(200);
      await bench.edgeKnows(model, (headers) => headers.has('sunset'));
    },
    async edgeKnows(model, condition) {
      await waitFor(async () => condition((await bench.request(surfaces['chat completions']!, model)).headers), {
        description: `the edge to know of ${model}`,
        timeoutMs: 1_000,
        intervalMs: 20,
      });
    },
    async at(ms, work) {
      const before = clock.now();
      clock.set(ms);
      try {
        return await work();
      } finally {
        clock.set(before);
      }
    },
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
  return bench;
}
