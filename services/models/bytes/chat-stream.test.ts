import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ChatStream, type ChatStreamEnd, type ChatStreamOptions } from './chat-stream.ts';
import {
  completions,
  doneFrame,
  ollama,
  openAi,
  openAiChunks,
  openAiUsageChunk,
  sloppy,
  toolCalls,
  usage,
} from './fixtures/chat-streams.ts';
import { cutAt } from './fixtures/cut.ts';
import { trials, trialTimeoutMs } from './fixtures/json-text.ts';

type Passed = ChatStreamEnd & { text: string; output: string; deltas: number; stream: ChatStream };

const options: ChatStreamOptions = {
  operation: 'chat',
  includeUsage: false,
  mintId: () => 'chatcmpl-minted',
  createdSeconds: 1_800_000_000,
  model: 'acme/large',
  answers: 1,
};

function pass(
  input: string | readonly Uint8Array[],
  changed: Partial<ChatStreamOptions> & { cut?: boolean } = {},
): Passed {
  const stream = new ChatStream({ ...options, ...changed });
  const chunks = typeof input === 'string' ? [Buffer.from(input)] : input;
  const pieces = chunks.flatMap((chunk) => stream.push(chunk));
  const end = stream.end(changed.cut ?? false);
  const text = Buffer.concat([...pieces, ...end.forward]).toString();
  return { ...end, text, output: stream.outputText(), deltas: stream.deltas, stream };
}

/** The chunks that a client sees, and whether it sees [DONE]. */
function seen(text: string): { chunks: Record<string, unknown>[]; done: boolean } {
  const data: string[] = [];
  createParser({ onEvent: (event) => data.push(event.data) }).feed(text);
  return {
    chunks: data.filter((json) => json !== '[DONE]').map((json) => JSON.parse(json) as Record<string, unknown>),
    done: data.at(-1) === '[DONE]',
  };
}

describe('a correct stream', () => {
  test('is passed on byte by byte, without its usage chunk if the client did not ask for it', () => {
    const passed = pass(openAi);
    expect(passed.text).toBe(openAiChunks.join('') + doneFrame);
    expect(passed).toMatchObject({ outcome: 'complete', said: null, problem: null, deltas: 3 });
    expect(passed.usage).toMatchObject({ inputTokens: 19, cachedInputTokens: 16, outputTokens: 3, totalTokens: 22 });
    expect(passed.output).toBe('Hello "wörld" \\ \u{1f680}{"usage":{"prompt_tokens":1}}\n[DONE]');
  });

  test('is passed on whole if the client asked for usage', () => {
    expect(pass(openAi, { includeUsage: true }).text).toBe(openAi);
  });

  test('is passed on as the very chunk that came in, not as a copy', () => {
    const stream = new ChatStream(options);
    const chunk = Buffer.from(openAiChunks.join(''));
    expect(stream.push(chunk)).toEqual([chunk]);
    expect(stream.push(chunk)[0]).not.toBe(undefined);
    const plain = new Uint8Array(Buffer.from(openAiChunks[1]!));
    expect(stream.push(plain)[0]!.buffer).toBe(plain.buffer);
  });

  test('is passed on as it arrives: no frame waits for the next', () => {
    const stream = new ChatStream(options);
    for (const chunk of openAiChunks) expect(Buffer.concat(stream.push(Buffer.from(chunk))).toString()).toBe(chunk);
    expect(stream.state).toBe('open');
    stream.push(Buffer.from(openAiUsageChunk + doneFrame));
    expect(stream.state).toBe('done');
  });
});

describe('however it is cut, the client gets the same bytes, and the gateway learns the same', () => {
  const streams = {
    openAi,
    toolCalls,
    ollama,
    sloppy,
    completions,
    marked: `\ufeff${openAi}`,
    crlf: openAi.replaceAll('\n\n', '\r\n\r\n'),
  };
  for (const [name, text] of Object.entries(streams)) {
    const operation = name === 'completions' ? 'completions' : 'chat';
    test.each([true, false])(`${name}, usage asked for: %s`, (includeUsage) => {
      const bytes = Buffer.from(text);
      const { stream: _, ...whole } = pass(text, { operation, includeUsage });
      const check = (cuts: readonly number[]) => {
        const { stream: _, ...passed } = pass(cutAt(bytes, cuts), { operation, includeUsage });
        expect({ ...passed, forward: 0 }).toEqual({ ...whole, forward: 0 });
      };
      for (let cut = 1; cut < bytes.length; cut += 1) check([cut]);
      check(Array.from(bytes, (_, index) => index));
      fc.assert(fc.property(fc.array(fc.nat(bytes.length), { maxLength: 10 }), check), { numRuns: 100 });
    });
  }
});

test('what was passed on always ends with a whole frame', () => {
  const bytes = Buffer.from(openAi + ollama);
  const stream = new ChatStream(options);
  for (const chunk of cutAt(
    bytes,
    Array.from(bytes, (_, index) => index * 7),
  )) {
    const passed = Buffer.concat(stream.push(chunk)).toString();
    expect(passed === '' || passed.endsWith('\n\n')).toBe(true);
  }
});

describe('usage', () => {
  test('is null in every other chunk if the client asked, though the upstream leaves it out', () => {
    const { chunks, done } = seen(pass(ollama, { includeUsage: true }).text);
    expect(chunks.map((chunk) => chunk.usage)).toEqual([null, null, null, usage]);
    expect(done).toBe(true);
  });

  test('that came with the last words is repeated in a chunk of its own', () => {
    const text = openAiChunks.join('').replaceAll('"usage":null', `"usage":${JSON.stringify(usage)}`) + doneFrame;
    const { chunks, done } = seen(pass(text, { includeUsage: true }).text);
    expect(chunks.at(-1)).toEqual({
      id: 'chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG',
      object: 'chat.completion.chunk',
      created: 1741570283,
      model: 'gpt-4o-2024-08-06',
      choices: [],
      usage,
    });
    expect(done).toBe(true);
    expect(pass(text).text).toBe(text);
  });

  test('is reported once, at the end, however often and wherever the upstream reports it', () => {
    const early = `"usage":{"prompt_tokens":19,"completion_tokens":1}`;
    const spoken = openAiChunks.join('').replaceAll('"usage":null', early);
    for (const text of [
      spoken + openAiUsageChunk + doneFrame,
      openAiUsageChunk.replace('"completion_tokens":3', '"completion_tokens":1') +
        spoken +
        openAiUsageChunk +
        doneFrame,
      openAiUsageChunk + openAi,
      openAiUsageChunk + openAiChunks.join('') + doneFrame,
    ]) {
      const { chunks, done } = seen(pass(text, { includeUsage: true }).text);
      expect(chunks.map((chunk) => chunk.usage)).toEqual([...openAiChunks.map(() => null), usage]);
      expect(chunks.at(-1)!.choices).toEqual([]);
      expect(done).toBe(true);
    }
  });

  test.each(['null', '{}', '{"prompt_tokens":1}'])(
    'of %s without choices never reaches a client that did not ask, who would read its first choice',
    (json) => {
      const frame = openAiUsageChunk.replace(JSON.stringify(usage), json);
      expect(pass(frame + openAi).text).toBe(openAiChunks.join('') + doneFrame);
    },
  );

  test.each(['', ',"usage":null', `,"usage":${JSON.stringify(usage)}`])(
    'never takes the moderation of a chunk along that has it beside no choices (%s)',
    (beside) => {
      const moderation = { input: { type: 'moderation_results', results: [] }, output: { type: 'error' } };
      const { id, object, created, model } = seen(openAi).chunks[0]!;
      const moderated = { id, object, created, model, choices: [], moderation };
      const frame = `data: ${JSON.stringify(moderated).slice(0, -1)}${beside}}\n\n`;
      for (const includeUsage of [false, true]) {
        const { chunks, done } = seen(
          pass(openAiChunks.join('') + frame + openAiUsageChunk + doneFrame, { includeUsage }).text,
        );
        expect(chunks.filter((chunk) => 'moderation' in chunk)).toMatchObject([moderated]);
        const told = chunks.filter((chunk) => chunk.usage != null);
        expect(told).toMatchObject(includeUsage ? [{ choices: [], usage }] : []);
        expect(done).toBe(true);
      }
    },
  );

  test('is the last one reported, never a sum, and zeros are zeros', () => {
    const cumulative = openAiChunks
      .map((chunk, index) => chunk.replace('"usage":null', `"usage":{"prompt_tokens":5,"completion_tokens":${index}}`))
      .join('');
    expect(pass(cumulative).usage).toMatchObject({ inputTokens: 5, outputTokens: 4 });
    expect(pass(cumulative.replace('"completion_tokens":4', '"completion_tokens":0')).usage?.outputTokens).toBe(0);
  });

  test.each(['{}', '{"prompt_tokens":null,"completion_tokens":null}', '{"prompt_tokens":-1,"completion_tokens":0.5}'])(
    'that can be read stays when a later one cannot: %s',
    (json) => {
      const unreadable = openAiUsageChunk.replace(JSON.stringify(usage), json);
      const beside = openAiChunks[4]!.replace('"usage":null', `"usage":${json}`);
      for (const text of [openAiChunks.join('') + openAiUsageChunk + unreadable, openAiUsageChunk + beside]) {
        const passed = pass(text + doneFrame, { includeUsage: true });
        expect(passed.usage).toMatchObject({ inputTokens: 19, outputTokens: 3 });
        expect(seen(passed.text).chunks.filter((chunk) => chunk.usage !== null)).toMatchObject([
          { choices: [], usage },
        ]);
      }
    },
  );

  test('that never came is null, and the text is available for counting', () => {
    const passed = pass(toolCalls);
    expect(passed).toMatchObject({ usage: null, outcome: 'complete', deltas: 3 });
    expect(passed.output).toBe('weather{"city":"Zürich"}');
    expect(pass(completions, { operation: 'completions' }).output).toBe(' word0 word1');
  });

  const deltaOf = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`;
  test.each([
    [
      'a call of a custom tool',
      { tool_calls: [{ index: 0, id: 'call_1', type: 'custom', custom: { name: 'sql', input: ' select' } }] },
      'sql select',
    ],
    ['what is said', { audio: { id: 'audio_1', transcript: 'Hello' } }, 'Hello'],
    ['sound', { audio: { data: 'AAAA' } }, ''],
    ['an image', { content: '', images: [{ image_url: { url: 'data:image/png;base64,AA' } }] }, ''],
    [
      'content in parts',
      {
        content: [
          { type: 'thinking', thinking: [{ type: 'text', text: 'So' }] },
          { type: 'text', text: ' "1"' },
        ],
      },
      'So "1"',
    ],
  ])('%s counts as output', (_what, delta, output) => {
    const passed = pass(deltaOf(delta) + deltaOf(delta));
    expect(passed).toMatchObject({ deltas: 2, output: output + output });
    expect(pass(deltaOf({ audio: { id: 'audio_1', expires_at: 1 }, content: [], images: [] })).deltas).toBe(0);
  });

  test('an image may be as large as a whole answer', () => {
    const images = [{ image_url: { url: `data:image/png;base64,${'A'.repeat(6 * 1024 * 1024)}` } }];
    expect(pass(cutAt(Buffer.from(deltaOf({ content: '', images })), [5 * 1024 * 1024])).deltas).toBe(1);
  });

  test('of an answer that the client left is what was passed on so far', () => {
    const passed = pass(openAiChunks.slice(0, 2).join(''), { cut: true });
    expect(passed).toMatchObject({ outcome: 'cut', usage: null, output: 'Hello', deltas: 1 });
  });

  test('text split within a character between two deltas is whole', () => {
    const half = (text: string) => `data: {"choices":[{"index":0,"delta":{"content":"${text}"}}]}\n\n`;
    expect(pass(half('\\ud83d') + half('\\ude80')).output).toBe('\u{1f680}');
  });
});

describe('what is wrong is corrected', () => {
  test('a colliding id, a role in each delta, a creation time that moves', () => {
    const { chunks, done } = seen(pass(ollama).text);
    expect(done).toBe(true);
    expect(new Set(chunks.map(({ id }) => id))).toEqual(new Set(['chatcmpl-minted']));
    expect(new Set(chunks.map(({ created }) => created))).toEqual(new Set([1700000001]));
    expect(chunks.map(({ choices }) => (choices as { delta: unknown }[])[0]?.delta)).toEqual([
      { role: 'assistant', content: 'Hi' },
      { content: ' there' },
      { content: '' },
    ]);
  });

  test('missing members, an empty role or finish_reason, an empty event, a ping', () => {
    const passed = pass(sloppy);
    const { chunks, done } = seen(passed.text);
    const head = { id: 'chatcmpl-minted', object: 'chat.completion.chunk', created: 1_800_000_000 };
    expect(chunks).toEqual([
      { ...head, model: 'm', choices: [{ index: 0, delta: { role: 'assistant', content: 'A' } }] },
      { ...head, model: 'm', choices: [{ index: 0, delta: { content: 'B' }, finish_reason: null }] },
      { ...head, model: 'm', choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    ]);
    expect(done).toBe(true);
    expect(passed.text).not.toContain('connected');
    expect(passed.text).not.toContain('ping');
    expect(passed).toMatchObject({ outcome: 'complete', output: 'AB', usage: { inputTokens: 4, outputTokens: 2 } });
  });

  test.each(['1744857525.25', '1744857525.0', '1.7e9', '"1744857525"', '-1', '0', 'null'])(
    'a creation time that is no number of seconds: %s',
    (created) => {
      const { chunks } = seen(pass(openAi.replaceAll(/"created":\d+/g, `"created":${created}`)).text);
      expect(chunks.length).toBeGreaterThan(1);
      expect(new Set(chunks.map((chunk) => chunk.created))).toEqual(new Set([1_800_000_000]));
    },
  );

  test('a frame without data that is more than a comment, an id or a time to retry', () => {
    const [first, ...rest] = openAiChunks;
    const noise = `<html>\n\n: here\n\nid: 7\nretry: 10\n\n: there\n\x1f\x8b\n\n`;
    const passed = pass([first, noise, ...rest, openAiUsageChunk, doneFrame].join(''));
    expect(passed.text).toBe([first, `: here\n\nid: 7\nretry: 10\n\n`, ...rest, doneFrame].join(''));
  });

  test('comments before the first chunk, which may turn out to be an error', () => {
    expect(pass(`: here\n\nretry: 10\n\n${openAi}`).text).toBe(openAiChunks.join('') + doneFrame);
  });

  test('tool calls without an index, by which clients join their pieces', () => {
    const call = (index: number, call: object) =>
      `data: ${JSON.stringify({ choices: [{ index, delta: { tool_calls: [call] } }] })}\n\n`;
    const text = [
      call(0, { id: 'a', type: 'function', function: { name: 'f', arguments: '{"x"' } }),
      call(0, { function: { arguments: ':1}' } }),
      call(0, { id: 'b', index: null, function: { name: 'f', arguments: '{}' } }),
      call(1, { id: '', function: { name: 'g', arguments: '{}' } }),
      call(1, { id: '', function: { name: 'h', arguments: '{}' } }),
      call(1, { index: 5, id: 'c', function: { name: 'f', arguments: '' } }),
      call(1, { function: { arguments: '{}' } }),
    ].join('');
    const calls = seen(pass(text).text).chunks.map(
      ({ choices }) => (choices as { delta: { tool_calls: { index: number }[] } }[])[0]!.delta.tool_calls[0]!,
    );
    expect(calls.map(({ index }) => index)).toEqual([0, 0, 1, 0, 1, 5, 5]);
    expect(calls[0]).toEqual({ index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{"x"' } });
  });

  test('choices that are absent without any usage', () => {
    const { chunks } = seen(pass('data: {"id":"chatcmpl-0123456789abcdef","created":1,"model":"m"}\n\n').text);
    expect(chunks).toEqual([
      { id: 'chatcmpl-0123456789abcdef', created: 1, model: 'm', object: 'chat.completion.chunk', choices: [] },
    ]);
  });

  test('a last frame without its blank line', () => {
    const passed = pass((openAiChunks.join('') + doneFrame).trimEnd());
    expect(passed).toMatchObject({ outcome: 'complete', text: openAiChunks.join('') + doneFrame });
  });

  test('a [DONE] that never comes, when every choice has ended', () => {
    expect(pass(openAiChunks.join(''))).toMatchObject({ outcome: 'complete', text: openAiChunks.join('') + doneFrame });
  });
});

describe('an incomplete answer is no success', () => {
  const started = openAiChunks.slice(0, 3).join('');

  test.each([
    ['an end in the middle', started, false, 'no_finish_reason'],
    ['[DONE] without any finish_reason', started + doneFrame, false, 'no_finish_reason'],
    ['a cut', started, true, 'cut'],
    ['a cut inside of a frame', started + openAiChunks[3]!.slice(0, 50), true, 'cut'],
    ['an end inside of a frame', started + openAiChunks[3]!.slice(0, 50), false, 'upstream_error'],
    ['an empty stream', '', false, 'no_finish_reason'],
    [
      'one of two choices unfinished',
      completions.replace(/data: [^\n]*"index":1[^\n]*length.*\n\ndata: \[DONE\]\n\n$/s, ''),
      false,
      'no_finish_reason',
    ],
  ])('%s', (_, text, cut, outcome) => {
    const operation = text.includes('text_completion') ? 'completions' : 'chat';
    const passed = pass(text, { cut, operation });
    expect(passed.outcome).toBe(outcome);
    expect(passed.forward).toEqual([]);
    expect(passed.text).not.toContain('data: [DONE]');
  });

  test.each([
    ['data: {"error":{"message":"boom","type":"server_error","code":500}}\n\n', '{"error":{'],
    ['data: {"error":"boom"}\n\n', '{"error":"boom"}'],
    ['error: {"code":503,"message":"loading","type":"unavailable_error"}\n\n', '{"code":503,'],
    ['event: error\ndata: {"message":"boom"}\n\n', '{"message":"boom"}'],
    ['event: error\ndata: boom\n\n', 'boom'],
    ['data: {"object":"error","message":"boom","type":"BadRequestError","code":400}\n\n', '{"object":"error",'],
    ['data: {"type":"error","message":"boom"}\n\n', '{"type":"error",'],
  ])('an error among the frames: %s', (frame, said) => {
    const passed = pass(started + frame + openAiChunks[4] + doneFrame);
    expect(passed).toMatchObject({
      outcome: 'upstream_error',
      said: expect.stringContaining(said),
      text: started,
      output: expect.stringMatching(/^Hello/),
    });
    expect(passed.stream.state).toBe('failed');
  });

  test.each([
    'data: <html>502</html>\n\n',
    'data: [1]\n\n',
    'data: null\n\n',
    'data: {"choices":[1]}\n\n',
    'data: {"choices":[{"delta":{"role":"a","role":"b"}}]}\n\n',
    'data: {"choices":[],"choices":[]}\n\n',
    // Like the chunk before it, but broken at its end, in its text, or cut off.
    openAiChunks[2]!.replace(/\n\n$/, ' x\n\n'),
    openAiChunks[2]!.replace('Hello', 'Hel\tlo').replace('w\u00f6rld', 'w\t'),
    `${openAiChunks[2]!.slice(0, -3)}\n\n`,
    `data: {"choices":[${Array.from({ length: 2000 }, (_, index) => `{"index":${index},"delta":{}}`).join(',')}]}\n\n`,
    `data: {"a":${'['.repeat(5000)}${']'.repeat(5000)}}\n\n`,
  ])('garbage among the frames: %.60s', (frame) => {
    const passed = pass(started + frame + openAiChunks[4] + doneFrame);
    expect(passed).toMatchObject({ outcome: 'upstream_error', text: started, said: null, problem: expect.any(String) });
  });

  test('an endless line', () => {
    const stream = new ChatStream(options);
    const chunk = Buffer.alloc(1 << 20, 'x');
    for (let megabytes = 0; megabytes < 32 && stream.state === 'open'; megabytes += 1) stream.push(chunk);
    expect(stream.end(false)).toMatchObject({ outcome: 'upstream_error', forward: [] });
  });
});

test('a stream has as many choices as were asked for, though that is more than any other may have', () => {
  const choiceOf = (index: number) => `data: {"choices":[{"index":${index},"text":"a","finish_reason":"stop"}]}\n\n`;
  const text = Array.from({ length: 2000 }, (_, index) => choiceOf(index)).join('') + doneFrame;
  expect(pass(text, { operation: 'completions', answers: 2000 })).toMatchObject({ outcome: 'complete', deltas: 2000 });
  expect(pass(text, { operation: 'completions', answers: 1 }).outcome).toBe('upstream_error');
});

test('a stream keeps at most 256 KiB of its text for counting, and beyond that its size is known', () => {
  const chunk = Buffer.from(`data: {"choices":[{"index":0,"delta":{"content":"${'x'.repeat(100_000)}"}}]}\n\n`);
  const stream = new ChatStream(options);
  for (let round = 0; round < 30; round += 1) stream.push(chunk);
  expect(stream.textBytes).toBe(3_000_000);
  expect(stream.outputText().length).toBeLessThanOrEqual(1 << 18);
  expect(stream.outputText().length * stream.textScale).toBeCloseTo(3_000_000);
});

/** Chunks of a few kinds, so that most have the shape of an earlier one; some are odd. */
const anyChunk = fc
  .record(
    {
      id: fc.constantFrom('chatcmpl-0123456789abcdef', 'chatcmpl-1', 'chatcmpl-fedcba9876543210'),
      created: fc.constantFrom(1, 1, 1, 2),
      usage: fc.constantFrom(null, null, null, { prompt_tokens: 1, completion_tokens: 2 }),
      choices: fc.array(
        fc.record(
          {
            index: fc.constantFrom(0, 0, 0, 1),
            delta: fc.record(
              {
                role: fc.constantFrom('assistant', 'assistant', ''),
                content: fc.oneof(
                  fc.constantFrom(' a', ' b', '', 'x"\\\n', 'é', 'long '.repeat(20), '"}}]}'),
                  fc.string(),
                ),
                reasoning_content: fc.constantFrom('think', null),
                tool_calls: fc.constantFrom([{ index: 0, function: { arguments: '{"a":' } }]),
              },
              { requiredKeys: ['content'] },
            ),
            finish_reason: fc.constantFrom(null, null, null, 'stop'),
          },
          { requiredKeys: ['index', 'delta'] },
        ),
        { minLength: 1, maxLength: 2, depthIdentifier: 'choices' },
      ),
      obfuscation: fc.constantFrom('', 'abc', 'defgh'),
    },
    { requiredKeys: ['choices'] },
  )
  .map((chunk) => JSON.stringify({ object: 'chat.completion.chunk', ...chunk }));

test(
  'a chunk recognized by its shape is treated like one that is parsed',
  () => {
    const pool = fc.array(anyChunk, { minLength: 1, maxLength: 4 });
    const order = fc.array(fc.nat(3), { minLength: 1, maxLength: 12 });
    fc.assert(
      fc.property(
        pool,
        order,
        fc.array(fc.string(), { minLength: 1 }),
        fc.boolean(),
        (pool, order, words, includeUsage) => {
          const chunks = order.map((kind, index) => {
            const chunk = JSON.parse(pool[kind % pool.length]!) as { choices: { delta: { content: string } }[] };
            // The same kind of chunk with another word in it.
            chunk.choices[0]!.delta.content = words[index % words.length]!;
            return JSON.stringify(chunk);
          });
          // Frames with a name are always parsed.
          const read = pass(chunks.map((chunk) => `event: message\ndata: ${chunk}\n\n`).join(''), { includeUsage });
          const recognised = pass(chunks.map((chunk) => `data: ${chunk}\n\n`).join(''), { includeUsage });
          expect(seen(recognised.text)).toEqual(seen(read.text));
          const { outcome, usage, output, deltas } = read;
          expect(recognised).toMatchObject({ outcome, usage, output, deltas });
        },
      ),
      trials,
    );
  },
  trialTimeoutMs,
);
