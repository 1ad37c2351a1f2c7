import { readFileSync } from 'node:fs';
import { toFile } from 'openai';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

let bench: InferenceBench;
const logLines: string[] = [];
beforeAll(async () => {
  bench = await startInferenceBench({ logLines });
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
const transcribeAs = async (name: string, audio: Parameters<typeof toFile>[0], fields: object) => {
  const answer: unknown = await bench.client.audio.transcriptions.create({
    file: await toFile(audio, name),
    model: 'sim-transcribe',
    ...fields,
  } as never);
  if ('stream' in fields) await Array.fromAsync(answer as AsyncIterable<unknown>);
};
const transcribe = (fields: object) => () => transcribeAs('speech.wav', wav, fields);

const messages = [{ role: 'user', content: 'How many tokens is this?' }];
const chat = { model: 'sim-chat', messages };
const text = { model: 'sim-chat', prompt: 'How many tokens is this?' };
const image = { model: 'sim-image', prompt: 'A cat' };
const head = { id: 'chatcmpl-0123456789abcdef0123456789', created: 1, model: 'm' };
const message = { role: 'assistant', content: 'Four words or more.' };
const finish_reason = 'stop';

/** A whole answer, and one made of events; `usage` is a member of the former, and of the last event of the latter. */
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

/** The key's events in the order of their calls, once there are `count` of them. */
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

const calls = [
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
    'a streamed chat that is answered whole',
    post('/chat/completions', { ...chat, stream: true }),
    whole({ ...head, object: 'chat.completion', choices: [{ index: 0, message, finish_reason }] }),
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
    'a streamed image that is answered whole',
    post('/images/generations', { ...image, stream: true }),
    whole({ created: 1, data: [{ b64_json: 'AAAA' }] }),
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
    'a streamed transcript that is answered whole',
    transcribe({ stream: true }),
    whole({ text: message.content }),
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
] as const;

const measuresOf = (event: Record<string, unknown>) =>
  ['success', 'input_tokens', 'cached_input_tokens', 'output_tokens', 'images', 'audio_seconds'].map(
    (name) => event[name],
  );

test.each(calls)(
  '%s with an impossible usage report is metered as if there were no report',
  async (_what, call, answer, figures, counted) => {
    const reports: Body[] = [{}];
    for (const name of Object.keys(figures).filter((name) => name !== 'type')) {
      // Seconds may be fractional, tokens may not.
      for (const figure of name === 'seconds' ? [-1, 2 ** 53 + 2] : [-1, 4.5, 2 ** 53 + 2]) {
        reports.push({ usage: { ...figures, [name]: figure } });
      }
    }
    for (const report of reports) {
      bench.simulator.next({ instead: answer(report) });
      await call();
    }
    const metered = await storedEvents(reports.length);
    const measures = metered.map(measuresOf);
    expect(measures).toEqual(reports.map(() => measures[0]));
    for (const name of counted) expect([name, Number(metered[0]![name]) > 0]).toEqual([name, true]);
  },
);

/** The log lines about reports that the gateway did not believe. */
const disbelieved = () =>
  logLines.map((line) => JSON.parse(line)).filter(({ msg }) => /reported more usage than/.test(String(msg)));

test.each([
  ...calls,
  [
    'speech as events',
    post('/audio/speech', { model: 'sim-speech', voice: 'alloy', input: 'Hello there', stream_format: 'sse' }),
    events({ type: 'speech.audio.delta', audio: 'AAAA' }, { type: 'speech.audio.done' }),
    inputTokens,
    ['characters'],
  ],
] as const)(
  '%s whose upstream reports more than such a call can use is metered as if it reported nothing, and the log says so',
  async (_what, call, answer, figures, counted) => {
    const beyond = {
      prompt_tokens: 200_000,
      input_tokens: 200_000,
      completion_tokens: 140_000,
      output_tokens: 140_000,
    };
    const reports: Body[] = [{}];
    for (const [name, figure] of Object.entries({ ...beyond, seconds: 4 })) {
      if (name in figures) reports.push({ usage: { ...figures, [name]: figure } });
    }
    logLines.length = 0;
    for (const report of reports) {
      bench.simulator.next({ instead: answer(report) });
      await call();
    }
    const metered = await storedEvents(reports.length);
    expect(metered.map(measuresOf)).toEqual(metered.map(() => measuresOf(metered[0]!)));
    for (const name of counted) expect([name, Number(metered[0]![name]) > 0]).toEqual([name, true]);
    const lines = disbelieved();
    expect(lines).toHaveLength(reports.length - 1);
    for (const line of lines) {
      expect(line).toMatchObject({ model: metered[0]!.model, deployment: expect.any(String) });
      expect(Object.keys(line.reported)).not.toHaveLength(0);
      expect(line.charged.outputTokens).toBe(metered[0]!.output_tokens);
    }
  },
);

test('reasoning tokens reported by a model of unknown size are charged, though nobody sees them and less was held', async () => {
  const reported = { prompt_tokens: 12, completion_tokens: 100_000 };
  const usageReported = { ...reported, completion_tokens_details: { reasoning_tokens: 99_997 } };
  for (const stream of [false, true]) {
    bench.simulator.next({ tokens: 3, usage: 'always', usageReported });
    await post('/chat/completions', { ...chat, stream })();
  }
  const metered = await storedEvents(2);
  expect(metered).toMatchObject(metered.map(() => ({ input_tokens: 12, output_tokens: 100_000 })));
});

test("no report of more tokens than the model's context window and the call's own limit allow is believed", async () => {
  await bench.admin('POST', '/models', { name: 'small', operations: ['chat_completions'], context_window: 4_000 });
  await bench.admin('POST', '/deployments', {
    model: 'small',
    base_url: bench.simulator.url,
    upstream_model: 'sim-chat',
  });
  const reports = [
    // A linked image may take more tokens than the request's words suggest.
    [4_000, 50, [4_000, 50]],
    [4_001, 50, 'counted'],
    [400, 50, [400, 50]],
    [400, 51, 'counted'],
  ] as const;
  for (const [prompt_tokens, completion_tokens] of reports) {
    bench.simulator.next({ tokens: 3, usage: 'always', usageReported: { prompt_tokens, completion_tokens } });
    await post('/chat/completions', { ...chat, model: 'small', max_tokens: 25, n: 2 })();
  }
  const metered = await storedEvents(reports.length);
  const tokensOf = metered.map(({ input_tokens, output_tokens }) => [input_tokens, output_tokens]);
  const own = tokensOf[1]!;
  expect(Number(own[0])).toBeLessThan(100);
  expect(Number(own[1])).toBeLessThan(50);
  expect(tokensOf).toEqual(reports.map(([, , charged]) => (charged === 'counted' ? own : charged)));
});

test('an answer that has more tokens by the own vocabulary than the call allowed is charged as many as it allowed', async () => {
  for (const stream of [false, true]) {
    bench.simulator.next({ tokens: 25, usage: 'absent' });
    await post('/chat/completions', { ...chat, max_tokens: 25, n: 2, stream })();
  }
  expect((await storedEvents(2)).map(({ output_tokens }) => output_tokens)).toEqual([50, 50]);
});

test('an answer of an upstream that does not heed the limit of a call is charged as long as it says, or its pieces tell', async () => {
  const words = Array.from({ length: 500 }, () => ' word');
  const usage = { usage: { prompt_tokens: 7, completion_tokens: 500 } };
  const object = 'chat.completion.chunk';
  const chunks = words.map((content, at) => ({
    ...head,
    object,
    choices: [{ index: 0, delta: { content }, finish_reason: at === words.length - 1 ? 'length' : null }],
  }));
  const answer = { index: 0, message: { ...message, content: words.join('') }, finish_reason: 'length' };
  for (const [stream, instead] of [
    [false, whole({ ...head, object: 'chat.completion', choices: [answer] })(usage)],
    [true, events(...chunks)(usage)],
    [true, events(...chunks)({})],
  ] as const) {
    bench.simulator.next({ instead });
    await post('/chat/completions', { ...chat, max_tokens: 1, stream })();
  }
  expect((await storedEvents(3)).map(({ output_tokens }) => output_tokens)).toEqual([500, 500, 500]);
});

test.each([
  ['whole', {}, whole({ created: 1, data: Array.from({ length: 1_000 }, () => ({ b64_json: 'AAAA' })) })],
  [
    'as events',
    { stream: true },
    events(...Array.from({ length: 1_000 }, () => ({ type: 'image_generation.completed', b64_json: 'AAAA' }))),
  ],
])(
  'images that come %s are charged as far as they were asked for, or fewer where fewer came',
  async (_how, how, many) => {
    await bench.admin('POST', '/prices', { model: 'sim-image', per_image_usd: 1 });
    for (const [n, answer] of [
      [1, many({})],
      [3, many({})],
      [
        2,
        'stream' in how
          ? events({ type: 'image_generation.completed', b64_json: 'AAAA' })({})
          : whole({ created: 1, data: [{ url: 'https://images.invalid/1' }] })({}),
      ],
    ] as const) {
      bench.simulator.next({ instead: answer });
      await post('/images/generations', { ...image, ...how, n })();
    }
    const metered = await storedEvents(3);
    expect(metered.map(({ images, cost_usd }) => [images, cost_usd])).toEqual([
      [1, 1],
      [3, 3],
      [1, 1],
    ]);
  },
);

test('a file of unknown length is taken to be no longer than the slowest speech of its size', async () => {
  const send = async (seconds: number) => {
    bench.simulator.next({ instead: whole({ text: 'Good day' })({ usage: { type: 'duration', seconds } }) });
    const file = await toFile(Buffer.alloc(16_000, 7), 'speech.mp3');
    await bench.client.audio.transcriptions.create({ file, model: 'sim-transcribe' });
  };
  for (const seconds of [32, 99_999]) await send(seconds);
  expect((await storedEvents(2)).map(({ audio_seconds }) => audio_seconds)).toEqual([32, 2]);
});

test.each([
  ['the duration of its JSON', 'verbose_json', { status: 200, body: { text: 'Good day', duration: 86_000 } }, 2],
  [
    // 64,044 bytes at 4 kbit/s.
    'its last subtitle',
    'srt',
    { status: 200, body: '1\n00:00:00,000 --> 23:00:00,000\nGood day', contentType: 'text/plain' },
    128.088,
  ],
])(
  'a transcript is charged for no more audio than there is, whatever %s says',
  async (_what, response_format, instead, charged) => {
    bench.simulator.next({ instead });
    // A file that is no longer a valid WAV has no readable length.
    const file = await toFile(response_format === 'srt' ? Buffer.alloc(wav.length, 7) : wav, 'speech.wav');
    await bench.client.audio.transcriptions.create({ file, model: 'sim-transcribe', response_format } as never);
    await bench.event({ success: true, audio_seconds: charged });
  },
);

/** Eighty seconds of sound which state four: decoders hear all recordings in a row. */
const recording = readFileSync(new URL('../../services/models/audio/fixtures/sounds/opus.ogg', import.meta.url));
const chained = Buffer.concat(Array.from({ length: 20 }, () => recording));
const longText = 'So many words. '.repeat(150);
const reportedSeconds = { type: 'duration', seconds: 80 };

test.each([
  ['reports', {}, whole({ text: longText })({ usage: reportedSeconds }), 80],
  ['reports in a verbose answer', { response_format: 'verbose_json' }, whole({ text: longText })({ duration: 80 }), 80],
  [
    'reports at the end of a stream',
    { stream: true },
    events({ type: 'transcript.text.done', text: longText })({ usage: reportedSeconds }),
    80,
  ],
  // 63,340 bytes at 64 kbit/s.
  ['does not report', {}, whole({ text: longText })({}), 7.918],
  [
    'tells in subtitles',
    { response_format: 'srt' },
    {
      status: 200,
      body: `1\n00:00:00,000 --> 00:01:19,500\n${longText}`,
      contentType: 'text/plain',
    },
    79.5,
  ],
  // It may as well be the upstream that is wrong.
  ['alone claims', {}, whole({ text: 'Good day' })({ usage: reportedSeconds }), 4],
])(
  'a file whose transcript is longer than the sound that it states is charged what its upstream %s, or by its size',
  async (_what, fields, instead, charged) => {
    bench.simulator.next({ instead });
    await transcribeAs('speech.ogg', chained, fields);
    await bench.event({ success: true, audio_seconds: charged });
  },
);

test.each([
  ['events', { type: 'transcript.text.delta', delta: longText }],
  ['chunks', { object: 'transcription.chunk', choices: [{ delta: { content: longText }, finish_reason: null }] }],
])(
  'so is one whose transcript broke off after more words than the sound that it states can have, streamed in long %s',
  async (_form, delta) => {
    bench.simulator.next({ instead: events(delta)({}) });
    const file = await toFile(chained, 'speech.ogg');
    const answer = await bench.client.audio.transcriptions.create({ file, model: 'sim-transcribe', stream: true });
    await expect(Array.fromAsync(answer)).rejects.toThrow();
    await bench.event({ success: false, audio_seconds: 7.918 });
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

test('a success for which the upstream reports zeroes is still charged its price per request', async () => {
  await bench.admin('POST', '/prices', { model: 'sim-chat', per_request_usd: 0.25 });
  bench.simulator.next({ usage: 'always', usageReported: { prompt_tokens: 0, completion_tokens: 0 } });
  await post('/chat/completions', chat)();
  await bench.event({ success: true, input_tokens: 0, output_tokens: 0, cost_usd: 0.25 });
});
