import { countTokens, encode } from 'gpt-tokenizer/encoding/o200k_base';
import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { memoryGrowth } from '../../../../test/support/memory.ts';
import { askJson, sandbox, start } from './fixtures/test-exchange.ts';

const embed = (fields: object, status?: number) =>
  askJson(Operation.EMBEDDINGS, { model: 'sandbox-embed', ...fields }, status);
const vectors = (answer: { data: { embedding: number[] }[] }) => answer.data.map((item) => item.embedding);
const dot = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + value * b[i]!, 0);

test('similar texts are closer than different ones, and every vector has unit length', async () => {
  const answer = await embed({
    input: [
      'The cat sat on the warm windowsill.',
      'A cat was sitting on a warm windowsill',
      'Quarterly revenue grew by nine percent',
    ],
  });
  const [cat, sitting, revenue] = vectors(answer) as [number[], number[], number[]];
  expect(dot(cat, sitting)).toBeGreaterThan(0.5);
  expect(Math.abs(dot(cat, revenue))).toBeLessThan(0.25);
  for (const vector of [cat, sitting, revenue]) {
    expect(vector).toHaveLength(1536);
    expect(dot(vector, vector)).toBeCloseTo(1, 5);
  }
  expect(answer.data.map((item: { index: number }) => item.index)).toEqual([0, 1, 2]);
});

test('base64 and float say the same', async () => {
  const [float] = vectors(await embed({ input: 'hello', dimensions: 256 })) as [number[]];
  const encoded = await embed({ input: 'hello', dimensions: 256, encoding_format: 'base64' });
  const bytes = Buffer.from(encoded.data[0].embedding, 'base64');
  expect(bytes).toHaveLength(256 * 4);
  for (const [i, value] of float.entries()) expect(bytes.readFloatLE(i * 4)).toBeCloseTo(value, 7);
});

test('text and its tokens have the same vector and the same usage', async () => {
  const [a, b] = ['red panda', 'blue whale'];
  const text = await embed({ input: [a, b] });
  const tokens = await embed({ input: [encode(a!), encode(b!)] });
  expect(tokens).toEqual(text);
  expect(text.usage).toEqual({
    prompt_tokens: countTokens(a!) + countTokens(b!),
    total_tokens: countTokens(a!) + countTokens(b!),
  });
  expect(vectors(await embed({ input: encode(a!) }))).toEqual([vectors(text)[0]]);
});

test('other work gets its turns while the largest allowed number of inputs is embedded', async () => {
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const { data } = await embed({ input: Array(2_048).fill('a') });
  isOver = true;
  expect(data).toHaveLength(2_048);
  expect(turns).toBeGreaterThan(100);
});

test('punctuation and blanks have a vector too', async () => {
  for (const vector of vectors(await embed({ input: ['!!!', ' ', '漢字'] })))
    expect(dot(vector, vector)).toBeCloseTo(1, 5);
});

test('an input beyond the window is a 400 that names the maximum context length', async () => {
  const { error } = await embed({ input: 'word '.repeat(9_000) }, 400);
  expect(error.code).toBe('context_length_exceeded');
  expect(error.message).toContain('maximum context length');
});

test.each([
  [{}, 'input'],
  [{ input: '' }, 'input'],
  [{ input: [] }, 'input'],
  [{ input: 'x', dimensions: 255 }, 'dimensions'],
  [{ input: 'x', dimensions: 1537 }, 'dimensions'],
  [{ input: 'x', encoding_format: 'hex' }, 'encoding_format'],
])('%j is a 400 for its %s', async (fields, param) => {
  expect((await embed(fields, 400)).error.param).toBe(param);
});

test('more than 300,000 tokens in one request are a 400', async () => {
  const { error } = await embed({ input: new Array(38).fill('word '.repeat(8_000)) }, 400);
  expect(error).toMatchObject({ code: 'max_tokens_per_request', param: 'input' });
});

test('more than 2,048 inputs are a 400', async () => {
  expect((await embed({ input: new Array(2_049).fill('x') }, 400)).error.param).toBe('input');
});

test('an answer that nobody takes is not made: a short request for a long one holds little memory', async () => {
  const boundBytes = 8 * 1024 * 1024;
  const paused = Promise.withResolvers<void>();
  const body = { model: 'sandbox-embed', encoding_format: 'base64', input: Array(2_048).fill('hello') };
  const growthBytes = await memoryGrowth(boundBytes, async () => {
    const { exchange } = start(sandbox, Operation.EMBEDDINGS, body, {
      onChunk(running) {
        running.pause();
        paused.resolve();
      },
    });
    await paused.promise;
    await new Promise((resolve) => setTimeout(resolve, 40));
    exchange.abort();
  });
  expect(growthBytes).toBeLessThan(boundBytes);
});
