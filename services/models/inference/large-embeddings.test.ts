import { expect, test } from 'vitest';
import { readEmbeddings } from './embeddings-answer.ts';
import { createLargeEmbeddings } from './large-embeddings.ts';

const model = 'acme/embed';

/** As an upstream writes it, of several megabytes. */
function largeList(): Buffer {
  const numbers = Array.from({ length: 1_536 }, (_, place) => Math.sin(place) / 10);
  const data = Array.from({ length: 200 }, (_, index) => ({ object: 'embedding', index, embedding: numbers }));
  return Buffer.from(JSON.stringify({ object: 'list', data, usage: { prompt_tokens: 7, total_tokens: 7 } }));
}

test.each(['float', 'base64'] as const)(
  'while large embeddings are read as %s, the process serves others',
  async (format) => {
    const embeddings = createLargeEmbeddings();
    // The thread has started.
    await embeddings.read(largeList(), { format, model });
    const body = largeList();
    const inline = readEmbeddings(Buffer.from(body), { format, model })!;
    let turns = 0;
    const turn = () => {
      turns += 1;
      next = setImmediate(turn);
    };
    let next = setImmediate(turn);
    const read = await embeddings.read(body, { format, model });
    clearImmediate(next);
    expect(turns).toBeGreaterThan(10);
    expect({ ...read, pieces: [] }).toEqual({ ...inline, pieces: [] });
    expect(Buffer.concat(read!.pieces).equals(Buffer.concat(inline.pieces))).toBe(true);
  },
);

test('lists that are read at the same time are not mixed up, nor one that is none', async () => {
  const embeddings = createLargeEmbeddings();
  const lists = [largeList(), Buffer.from('{"data":[{"embedding":"AAAA"}]}'), Buffer.from('no list'.padEnd(20_000))];
  const reading = lists.map((list) =>
    embeddings.read(Buffer.from(new Uint8Array(list).buffer), { format: 'base64', model }),
  );
  const [large, short, none] = await Promise.all(reading);
  expect([large?.usage?.inputTokens, short?.hasUsage, none]).toEqual([7, false, null]);
});

test('a list that the thread ends of fails alone: others in line are read, and those that come later', async () => {
  const embeddings = createLargeEmbeddings({ maxOldGenerationSizeMb: 24 });
  const packed = Buffer.alloc(4_096, 'x').toString('base64');
  const data = Array.from({ length: 4_000 }, () => ({ embedding: packed }));
  const tooLarge = Buffer.from(JSON.stringify({ data }));
  const short = () => Buffer.from(new Uint8Array(Buffer.from('{"data":[{"embedding":"AAAA"}]}')).buffer);
  const [failed, next] = await Promise.allSettled([
    embeddings.read(tooLarge, { format: 'float', model }),
    embeddings.read(short(), { format: 'base64', model }),
  ]);
  expect(failed).toMatchObject({ reason: { details: { internal: expect.stringMatching(/not be read: .* memory/) } } });
  expect(next).toMatchObject({ value: { hasUsage: false } });
  expect(await embeddings.read(short(), { format: 'base64', model })).toMatchObject({ hasUsage: false });
});

test('a list for which there is no thread is no fault of its upstream, which would get no more calls', async () => {
  const embeddings = createLargeEmbeddings();
  await embeddings.close();
  const error = await embeddings.read(largeList(), { format: 'float', model }).catch((thrown) => thrown);
  expect(error).toMatchObject({ message: 'the thread for this has ended' });
});
