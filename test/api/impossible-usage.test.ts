import { toFile } from 'openai';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startInferenceBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

type Body = Record<string, unknown>;

const wav = wavOf(2);
const post = (path: string, body: Body) => () =>
  fetch(`${bench.gateway.url}/v1${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bench.key.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }).then((response) => response.text());
const transcribe = (fields: object) => async () => {
  const file = await toFile(wav, 'speech.wav');
  const answer: unknown = await bench.client.audio.transcriptions.create({
    file,
    model: 'sim-transcribe',
    ...fields,
  } as never);
  if ('stream' in fields) await Array.fromAsync(answer as AsyncIterable<unknown>);
};

const messages = [{ role: 'user', content: 'How many tokens is this?' }];
const chat = { model: 'sim-chat', messages };
const text = { model: 'sim-chat', prompt: 'How many tokens is this?' };
const image = { model: 'sim-image', prompt: 'A cat' };
const head = { id: 'chatcmpl-0123456789abcdef0123456789', created: 1, model: 'm' };
const message = { role: 'assistant', content: 'Four words or more.' };
const finish_reason = 'stop';

/** An answer whole, and one of events; `usage` is a member of the former, and of the last event of the latter. */
const whole = (body: Body) => (usage: Body) => ({ status: 200, body: { ...body, ...usage } });
const events =
  (...bodies: Body[]) =>
  (usage: Body) => ({
    status: 200,
    contentType: 'text/event-stream',
    body: bodies
      .map((body, index) => `data: ${JSON.stringify(index < bodies.length - 1 ? body : { ...body, ...usage })}\n\n`)
      .join(''),
  });
const streamedTranscript = events(
  { type: 'transcript.text.delta', delta: message.content },
  { type: 'transcript.text.done', text: message.content },
);

/** The events of the key, in the order of their calls, as soon as there are so many. */
const storedEvents = (count: number): Promise<Record<string, number | boolean>[]> =>
  waitFor(
    async () => {
      const path = `/api/v1/usage/history?limit=100&api_key_id=${bench.key.id}`;
      const { data } = (await bench.gateway.call('GET', path, bench.session)).json;
      return data.length === count && data.reverse();
    },
    { description: `${count} events` },
  );

const tokens = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };
const inputTokens = { input_tokens: 7, output_tokens: 5, total_tokens: 12 };
const duration = { type: 'duration', seconds: 2 };

test.each([
  [
    'a chat',
    post('/chat/completions', chat),
    whole({ ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason }] }),
    tokens,
    ['input_tokens', 'output_tokens'],
  ],
  [
    'a streamed chat',
    post('/chat/completions', { ...chat, stream: true }),
    events(
      { ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta: message, finish_reason }] },
      { ...head, object: 'chat.completion.chunk', choices: [] },
    ),
    tokens,
    ['input_tokens', 'output_tokens'],
  ],
  [
    'a text completion',
    post('/completions', text),
    whole({ ...head, object: 'text_completion', choices: [{ index: 0, text: message.content, finish_reason }] }),
    tokens,
    ['input_tokens', 'output_tokens'],
  ],
  [
    'a streamed text completion',
    post('/completions', { ...text, stream: true }),
    events(
      { ...head, object: 'text_completion', choices: [{ index: 0, text: message.content, finish_reason }] },
      { ...head, object: 'text_completion', choices: [] },
    ),
    tokens,
    ['input_tokens', 'output_tokens'],
  ],
  [
    'an embedding',
    post('/embeddings', { model: 'sim-embedding', input: 'How many tokens is this?', encoding_format: 'float' }),
    whole({ object: 'list', data: [{ object: 'embedding', index: 0, embedding: [0.5] }] }),
    { prompt_tokens: 7, total_tokens: 7 },
    ['input_tokens'],
  ],
  [
    'an image',
    post('/images/generations', image),
    whole({ created: 1, data: [{ b64_json: 'AAAA' }] }),
    inputTokens,
    ['images'],
  ],
  [
    'a streamed image',
    post('/images/generations', { ...image, stream: true }),
    events({ type: 'image_generation.completed', b64_json: 'AAAA' }),
    inputTokens,
    ['images'],
  ],
  [
    'a transcript by tokens',
    transcribe({}),
    whole({ text: message.content }),
    inputTokens,
    ['output_tokens', 'audio_seconds'],
  ],
  [
    'a transcript by its length',
    transcribe({}),
    whole({ text: message.content }),
    duration,
    ['output_tokens', 'audio_seconds'],
  ],
  [
    'a streamed transcript by tokens',
    transcribe({ stream: true }),
    streamedTranscript,
    inputTokens,
    ['output_tokens', 'audio_seconds'],
  ],
  [
    'a streamed transcript by its length',
    transcribe({ stream: true }),
    streamedTranscript,
    duration,
    ['output_tokens', 'audio_seconds'],
  ],
] as const)(
  '%s whose upstream reports what cannot be true is metered as if it reported nothing',
  async (_what, call, answer, figures, counted) => {
    const reports: Body[] = [{}];
    for (const name of Object.keys(figures).filter((name) => name !== 'type')) {
      // Half a second there is, half a token there is not.
      for (const figure of name === 'seconds' ? [-1, 2 ** 53 + 2] : [-1, 4.5, 2 ** 53 + 2]) {
        reports.push({ usage: { ...figures, [name]: figure } });
      }
    }
    for (const report of reports) {
      bench.simulator.next({ instead: answer(report) });
      await call();
    }
    const metered = await storedEvents(reports.length);
    const measures = metered.map((event) =>
      ['success', 'input_tokens', 'cached_input_tokens', 'output_tokens', 'images', 'audio_seconds'].map(
        (name) => event[name],
      ),
    );
    expect(measures).toEqual(reports.map(() => measures[0]));
    for (const name of counted) expect([name, Number(metered[0]![name]) > 0]).toEqual([name, true]);
  },
);

test.each([
  ['a chat', '/chat/completions', false],
  ['a streamed chat', '/chat/completions', true],
  ['a text completion', '/completions', false],
  ['a streamed text completion', '/completions', true],
])(
  'what the usage of %s leaves out is what its total has beyond the rest, or else counted',
  async (_what, path, stream) => {
    const isChat = path === '/chat/completions';
    const said = isChat ? { [stream ? 'delta' : 'message']: message } : { text: message.content };
    const one = { ...head, object: 'any', choices: [{ index: 0, ...said, finish_reason }] };
    const answer = stream ? events(one, { ...head, object: 'any', choices: [] }) : whole(one);
    const reports = [
      {},
      { usage: { prompt_tokens: 700, total_tokens: 790 } },
      { usage: { completion_tokens: 90, total_tokens: 790 } },
      { usage: { prompt_tokens: 700, completion_tokens: null } },
      { usage: { prompt_tokens: 700, total_tokens: 700 } },
      { usage: { completion_tokens: 90, total_tokens: 9 } },
      { usage: { total_tokens: 790 } },
    ];
    for (const report of reports) {
      bench.simulator.next({ instead: answer(report) });
      await post(path, { ...(isChat ? chat : text), stream })();
    }
    const metered = (await storedEvents(reports.length)).map(({ input_tokens, output_tokens }) => [
      input_tokens,
      output_tokens,
    ]);
    const [input, output] = metered[0]!;
    expect(Math.min(Number(input), Number(output))).toBeGreaterThan(0);
    expect(metered.slice(1)).toEqual([
      [700, 90],
      [700, 90],
      [700, output],
      [700, output],
      [input, 90],
      [input, output],
    ]);
  },
);

test('a success whose upstream tells zeroes is charged its price per request all the same', async () => {
  await bench.admin('POST', '/prices', { model: 'sim-chat', per_request_usd: 0.25 });
  bench.simulator.next({ usage: 'always', usageReported: { prompt_tokens: 0, completion_tokens: 0 } });
  await post('/chat/completions', chat)();
  await bench.event({ success: true, input_tokens: 0, output_tokens: 0, cost_usd: 0.25 });
});
