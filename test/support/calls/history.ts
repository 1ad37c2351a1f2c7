import { expect } from 'vitest';
import { type InferenceBench, liftRateLimits, operationsOfCalls, startInferenceBench } from '../inference.ts';
import { nothingYet, type Received, receive } from '../receive.ts';
import { type Behaviour, behaviourOf } from '../simulator/behaviour.ts';
import { embeddingsAnswer, imagesAnswer } from '../simulator/other-answers.ts';
import { textAnswer } from '../simulator/text-generation.ts';
import type { TruthEntry } from '../upstream-simulator.ts';
import { waitFor } from '../wait-for.ts';
import { wavOf } from '../wav.ts';
import type { Call } from './acts.ts';

/** Two deployments, for each of which the simulator answers as the call says. */
const model = 'twofold';
/** A silence of this length is a failure, in milliseconds; a busy machine may take a quarter of a second to pass on what is not silent. */
const patienceMs = 750;
const usd = { input: 3, cached: 1, output: 7, image: 0.01, second: 0.001, character: 11, request: 0.000_5 };
const paths = {
  chat: '/chat/completions',
  completions: '/completions',
  embeddings: '/embeddings',
  images: '/images/generations',
  speech: '/audio/speech',
  transcriptions: '/audio/transcriptions',
  translations: '/audio/translations',
} as const;

/** The most that the last call of a history costs. */
const largestLastUsd = 0.002;

type Result = { name: string; call: Call; received: Received };
type UsageEvent = {
  request_id: string;
  success: boolean;
  status: number;
  input_tokens: number;
  cached_input_tokens: number;
  output_tokens: number;
  images: number;
  audio_seconds: number;
  characters: number;
  cost_usd: number;
};
/** How an attempt must end: with an answer, a refusal that may be tried elsewhere, or one that may not. */
type Fate = 'whole' | 'broken' | { status: number; mayTryElsewhere: boolean };

export async function startCallsBench(): Promise<InferenceBench> {
  const bench = await startInferenceBench();
  await liftRateLimits(bench);
  await bench.admin('POST', '/models', { name: model, operations: operationsOfCalls });
  for (const upstream_model of ['first', 'second']) {
    await bench.admin('POST', '/deployments', {
      model,
      base_url: bench.simulator.url,
      upstream_model,
      concurrency_limit: 5,
      first_byte_timeout_ms: patienceMs,
      idle_timeout_ms: patienceMs,
    });
  }
  await bench.admin('POST', '/prices', {
    model,
    input_per_million_tokens_usd: usd.input,
    cached_input_per_million_tokens_usd: usd.cached,
    output_per_million_tokens_usd: usd.output,
    per_image_usd: usd.image,
    per_audio_second_usd: usd.second,
    per_million_characters_usd: usd.character,
    per_request_usd: usd.request,
  });
  return bench;
}

/** The calls of one key, and what must come of them. */
export class History {
  readonly #bench: InferenceBench;
  #key = { id: '', key: '' };
  #made = 0;
  readonly #behaviours = new Map<string, Call['attempts']>();
  readonly #results: Result[] = [];

  constructor(bench: InferenceBench) {
    this.#bench = bench;
  }

  async begin(): Promise<void> {
    const { simulator, gateway, session } = this.#bench;
    simulator.reset();
    simulator.otherwise((entry) => this.#behaviourOf(entry));
    this.#key = await gateway.createKey(session, { spend_cap_usd: 1_000 });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bench.gateway.call('DELETE', `/api/v1/api-keys/${this.#key.id}`, this.#bench.session);
  }

  /** Makes calls at the same moment, and then some that succeed, so that no deployment is left out for its failures. */
  async perform(calls: readonly Call[]): Promise<void> {
    await Promise.all(calls.map((call) => this.#make(call)));
    const seen = new Set<unknown>();
    for (let time = 0; seen.size < 2; time += 1) {
      if (time === 10) throw new Error(`only ${[...seen]} is asked: ${this.#description(this.#results.at(-1)!)}`);
      const name = await this.#make(plainCall);
      seen.add(this.#attempts(name)[0]?.model);
    }
  }

  /** Compares everything that came of the calls. */
  async finish(): Promise<void> {
    const events = await this.#events();
    for (const result of this.#results) {
      try {
        this.#compare(result, events);
      } catch (difference) {
        throw new Error(this.#description(result), { cause: difference });
      }
    }
    for (const event of events) expect(event.cost_usd).toBeCloseTo(costOf(event), 9);
    await this.#compareCap(events);
  }

  async #make(call: Call): Promise<string> {
    this.#made += 1;
    const name = `call${this.#made}.`;
    this.#behaviours.set(name, call.attempts);
    this.#results.push({ name, call, received: await this.#receive(name, call) });
    return name;
  }

  async #receive(name: string, call: Call): Promise<Received> {
    const { gateway, simulator } = this.#bench;
    const url = `${gateway.url}${call.prefix}${paths[call.operation]}`;
    const { body, contentType } = bodyOf(name, call);
    const headers = {
      authorization: `Bearer ${this.#key.key}`,
      ...(contentType !== null && { 'content-type': contentType }),
    };
    const received = nothingYet();
    const untilAsked = () => simulator.waitFor((entry) => nameIn(entry) === name);
    await receive(received, url, { headers, body }, { leaves: call.leaves, untilAsked });
    return received;
  }

  #attempts(name: string): TruthEntry[] {
    return this.#bench.simulator.requests.filter((entry) => nameIn(entry) === name);
  }

  #behaviourOf(entry: TruthEntry): Behaviour {
    const name = nameIn(entry);
    if (name === '') return {};
    const deployments = [...new Set(this.#attempts(name).map((attempt) => attempt.model))];
    const given = this.#behaviours.get(name)![deployments.indexOf(entry.model)]!;
    const { fault, ...answer } = behaviourOf(given) as Behaviour;
    if (fault === undefined) return answer;
    // In a body with a length, garbage may stand in for the rest and make it complete.
    const isOfStreams = endsAsStream(fault.kind) || (fault.kind === 'garbage' && fault.afterChunks !== undefined);
    return { ...answer, fault: isOfStreams && !isEventStream(entry) ? { ...fault, kind: 'cut' } : fault };
  }

  #compare({ name, call, received }: Result, events: readonly UsageEvent[]): void {
    const attempts = this.#attempts(name);
    expect(attempts.map(({ outcome }) => outcome)).not.toContain('running');
    const fates = attempts.map(fateOf);
    attempts.slice(1).forEach((entry, index) => {
      if (entry.model === attempts[index]!.model) expect(isAsIfIdle(attempts[index]!)).toBe(true);
      else expect(fates[index]).toMatchObject({ mayTryElsewhere: true });
    });
    const deployments = new Set(attempts.map((entry) => entry.model)).size;
    expect(attempts.length).toBeLessThanOrEqual(2 * deployments);
    const event = events.find(({ request_id }) => request_id === received.requestId);
    if (received.status !== 0) expect(event).toBeDefined();
    if (received.hasLeft) return;
    expect(event).toMatchObject({ status: received.status });
    const last = attempts.at(-1)!;
    const fate = fates.at(-1)!;
    if (fate === 'whole') this.#compareWhole(call, last, received, event!);
    else if (fate === 'broken') compareBroken(call, last, received, event!);
    else {
      expect(received.status).toBe(fate.status);
      expectError(received, event!);
      // The calls that succeed leave room for it.
      if (fate.mayTryElsewhere) expect(deployments).toBe(2);
    }
  }

  #compareWhole(call: Call, entry: TruthEntry, received: Received, event: UsageEvent): void {
    expect(received).toMatchObject({ status: 200, isWhole: true });
    expect(event).toMatchObject({ success: true });
    expect(textIn(call, received.bytes)).toBe(textOf(entry));
    const frames = getsEvents(call) ? framesIn(received.bytes) : [];
    if (frames.length > 0 && (call.operation === 'chat' || call.operation === 'completions')) {
      expect(received.bytes.toString().endsWith('data: [DONE]\n\n')).toBe(true);
      const usages = frames.flatMap(({ usage }) => usage ?? []);
      if (call.asksForUsage) expect(usages.at(-1)?.completion_tokens).toBe(event.output_tokens);
      // In chunks with words, usage may appear unasked: they are passed on untouched.
      else expect(frames.filter(({ choices }) => !choices?.length)).toEqual([]);
    }
    const reported = entry.reportedUsage as Record<string, number> | null;
    if (reported !== null && reported.type === undefined) {
      expect(event.input_tokens).toBe(reported.prompt_tokens ?? reported.input_tokens);
      expect(event.output_tokens).toBe(reported.completion_tokens ?? reported.output_tokens ?? 0);
    }
    if (call.operation === 'images') expect(event.images).toBe(frames.length > 0 ? 1 : call.answers);
    if (call.operation === 'speech') expect(event.characters).toBe(textOf(entry).length / 16);
    if (call.operation.startsWith('trans')) expect(event.audio_seconds).toBeGreaterThanOrEqual(1);
  }

  #description({ name, call, received }: Result): string {
    const attempts = this.#attempts(name).map(({ behaviour, outcome, chunks }) => ({ behaviour, outcome, chunks }));
    const bytes = received.bytes.toString().replaceAll(/x{9,}/g, 'x…').slice(0, 1_500);
    return JSON.stringify({ name, call, received: { ...received, bytes }, attempts });
  }

  /** The events of all calls, once each has one. */
  async #events(): Promise<UsageEvent[]> {
    const { gateway, session, simulator } = this.#bench;
    await waitFor(
      () => {
        const running = simulator.requests.find(({ outcome }) => outcome === 'running');
        if (running === undefined) return true;
        const name = nameIn(running);
        throw new Error(this.#description(this.#results.find((result) => result.name === name)!));
      },
      { description: 'the end of all attempts' },
    );
    return waitFor(
      async () => {
        const path = `/api/v1/usage/history?limit=100&api_key_id=${this.#key.id}`;
        const { data } = (await gateway.call('GET', path, session)).json;
        if (data.length > this.#made) throw new Error(`${data.length} events of ${this.#made} calls`);
        if (data.length < this.#made) {
          const known = new Set(data.map((event: UsageEvent) => event.request_id));
          const without = this.#results.filter(({ received }) => !known.has(received.requestId));
          throw new Error(`none of ${without.map((result) => this.#description(result)).join('\n')}`);
        }
        return data as UsageEvent[];
      },
      { description: `the events of ${this.#made} calls` },
    );
  }

  /** Everything held for the calls is free again: a cap with room for one more call lets it through. */
  async #compareCap(events: readonly UsageEvent[]): Promise<void> {
    const { gateway, session } = this.#bench;
    const spent = events.reduce((sum, { cost_usd }) => sum + cost_usd, 0);
    const cap = { spend_cap_usd: Math.round((spent + largestLastUsd) * 1e9) / 1e9 };
    expect((await gateway.call('PATCH', `/api/v1/api-keys/${this.#key.id}`, session, cap)).status).toBe(200);
    const name = await this.#make({ ...plainCall, operation: 'speech' });
    const { received } = this.#results.at(-1)!;
    expect(received.status, `${name} with ${received.bytes}`).toBe(200);
  }
}

const plain: Call['attempts'][0] = {
  tokens: 3,
  usage: 'always',
  dialect: 'openai',
  cachedTokens: 0,
  paddingBytes: 0,
  headDelayMs: 0,
  chunkDelayMs: undefined,
  whole: false,
  trickle: undefined,
};
const plainCall: Call = {
  operation: 'chat',
  streamed: false,
  asksForUsage: false,
  prefix: '/v1',
  answers: 1,
  tokensMax: null,
  attempts: [plain, plain],
  leaves: null,
};

const speechInput = (name: string): string => `${name} is read aloud`;

function bodyOf(name: string, call: Call): { body: string | FormData; contentType: string | null } {
  const { operation, streamed, asksForUsage, answers, tokensMax } = call;
  if (operation === 'transcriptions' || operation === 'translations') {
    const form = new FormData();
    form.append('model', model);
    form.append('prompt', name);
    if (streamed && operation === 'transcriptions') form.append('stream', 'true');
    form.append('file', new Blob([wavOf(1)], { type: 'audio/wav' }), 'said.wav');
    return { body: form, contentType: null };
  }
  const text = {
    ...(streamed && { stream: true, ...(asksForUsage && { stream_options: { include_usage: true } }) }),
    ...(answers > 1 && { n: answers }),
    ...(tokensMax !== null && { max_tokens: tokensMax }),
  };
  const fields = {
    chat: { messages: [{ role: 'user', content: `${name} says something` }], ...text },
    completions: { prompt: `${name} goes on`, ...text },
    embeddings: { input: answers === 1 ? name : Array.from({ length: answers }, () => name) },
    images: { prompt: `${name} in oil`, ...(streamed ? { stream: true, partial_images: 1 } : { n: answers }) },
    speech: { input: speechInput(name), voice: 'alloy', ...(streamed && { stream_format: 'sse' }) },
  };
  return { body: JSON.stringify({ model, ...fields[operation] }), contentType: 'application/json' };
}

const names = new WeakMap<TruthEntry, string>();
/** The name of the call that made an attempt; empty until its body has arrived, and forever if it was given up before that. */
function nameIn(entry: TruthEntry): string {
  const name = names.get(entry) ?? /call\d+\./.exec(entry.body.toString('latin1'))?.[0] ?? '';
  if (name !== '') names.set(entry, name);
  return name;
}

/** Whether the client gets a stream, even if its upstream answers whole. */
const getsEvents = ({ streamed, operation }: Call): boolean =>
  streamed && operation !== 'embeddings' && operation !== 'translations';

const isEventStream = (entry: TruthEntry): boolean => entry.stream || entry.json?.stream_format === 'sse';

function fateOf(entry: TruthEntry): Fate {
  const { instead, fault } = entry.behaviour;
  if (instead !== undefined) {
    const status = instead.status === 503 ? 503 : instead.status === 400 ? 400 : 502;
    return { status, mayTryElsewhere: status !== 400 };
  }
  if (fault === undefined || entry.outcome === 'completed' || entry.isWhole) return 'whole';
  // A stream of which nothing was passed on may just as well have been refused.
  if (endsAsStream(fault.kind) && entry.chunks === 0) return { status: 502, mayTryElsewhere: true };
  if (fault.afterChunks !== undefined || endsAsStream(fault.kind)) return 'broken';
  return fault.kind === 'hang' ? { status: 504, mayTryElsewhere: false } : { status: 502, mayTryElsewhere: true };
}

/** Whether an upstream broke the connection as if closing it when idle: a request that crosses such a close is sent again. */
const isAsIfIdle = ({ behaviour: { fault } }: TruthEntry): boolean =>
  fault?.afterChunks === undefined && ['reset', 'cut', 'half-close'].includes(fault?.kind ?? '');

/** Faults of event streams, in correct HTTP. */
const endsAsStream = (kind: string): boolean => ['bad-sse', 'early-end', 'error-line'].includes(kind);

function compareBroken(call: Call, entry: TruthEntry, received: Received, event: UsageEvent): void {
  const isLate = entry.text === textAnswerOf(entry);
  if (isLate && event.success) return;
  expect(event.success).toBe(false);
  if (received.status !== 200) {
    expect(received.status).toBe(entry.behaviour.fault!.kind === 'hang' ? 504 : 502);
    expectError(received, event);
    return;
  }
  expect(textOf(entry).startsWith(textIn(call, received.bytes))).toBe(true);
  if (!isEventStream(entry)) {
    expect(received.isWhole).toBe(false);
    return;
  }
  expect(received.isWhole).toBe(true);
  expect(framesIn(received.bytes).at(-1)?.error).toMatchObject({ type: 'server_error', param: null });
  expect(received.bytes.includes('[DONE]')).toBe(false);
}

function expectError({ bytes, isWhole }: Received, event: UsageEvent): void {
  expect(isWhole).toBe(true);
  const { error } = JSON.parse(bytes.toString());
  expect(Object.keys(error).sort()).toEqual(['code', 'message', 'param', 'type']);
  expect(event).toMatchObject({ success: false, cost_usd: 0, input_tokens: 0, output_tokens: 0 });
}

// biome-ignore lint/suspicious/noExplicitAny: what came of a call may have any shape; the assertions are the types.
type Json = any;

const framesIn = (bytes: Buffer): Json[] =>
  bytes
    .toString()
    .split('\n\n')
    .flatMap((event) => /^data: (?!\[DONE\])(.*)$/m.exec(event)?.[1] ?? [])
    .map((data) => JSON.parse(data));

/** What the client was told, by an answer that is complete or not. */
function textIn({ operation, streamed }: Call, bytes: Buffer): string {
  if (operation === 'speech' && !streamed) return bytes.toString('latin1');
  if (operation === 'embeddings' || operation === 'translations' || !streamed) {
    const body = JSON.parse(bytes.toString());
    if (operation === 'chat') return body.choices.map(({ message }: Json) => message.content).join('');
    if (operation === 'completions') return body.choices.map(({ text }: Json) => text).join('');
    return body.text ?? JSON.stringify(body.data);
  }
  const frames = framesIn(bytes);
  switch (operation) {
    case 'chat':
    case 'completions':
      return frames
        .flatMap(({ choices }) => choices ?? [])
        .map((choice) => choice.delta?.content ?? choice.text ?? '')
        .join('');
    case 'speech':
      return frames.map(({ audio }) => Buffer.from(audio ?? '', 'base64').toString('latin1')).join('');
    case 'images':
      return frames.map(({ b64_json }) => b64_json ?? '').join(' ');
    default:
      return frames.map(({ delta }) => delta ?? '').join('');
  }
}

/** What the upstream said. */
function textOf(entry: TruthEntry): string {
  switch (entry.operation) {
    case 'speech':
      return audioOf(String(entry.json!.input));
    case 'embeddings':
      return JSON.stringify(JSON.parse(String((embeddingsAnswer(entry) as Json).body.bytes)).data);
    case 'images': {
      const answer = imagesAnswer(entry) as Json;
      const images = entry.stream
        ? [...answer.stream].flatMap(({ bytes }) => framesIn(Buffer.from(bytes)))
        : JSON.parse(String(answer.body.bytes)).data;
      if (entry.json!.stream !== true) return JSON.stringify(images);
      return images.map(({ b64_json }: Json) => b64_json).join(' ');
    }
    default:
      return entry.text;
  }
}

/** The whole text of a stream, whether or not it was sent. */
function textAnswerOf(entry: TruthEntry): string | null {
  if (!entry.stream || (entry.operation !== 'chat' && entry.operation !== 'completions')) return null;
  const answer = textAnswer(entry) as { stream: Iterable<{ text?: string }> };
  return [...answer.stream].map(({ text }) => text ?? '').join('');
}

/** The simulator's speech for a text. */
const audioOf = (input: string): string =>
  Array.from({ length: input.length }, (_, at) => String.fromCharCode(Math.floor(at / 8) + 1).repeat(16)).join('');

function costOf(event: UsageEvent): number {
  const { input_tokens, cached_input_tokens: cached, output_tokens, images, audio_seconds, characters } = event;
  const millionths =
    (input_tokens - cached) * usd.input + cached * usd.cached + output_tokens * usd.output + characters * usd.character;
  const measured = millionths / 1e6 + images * usd.image + audio_seconds * usd.second;
  return event.success || measured > 0 ? measured + usd.request : 0;
}
