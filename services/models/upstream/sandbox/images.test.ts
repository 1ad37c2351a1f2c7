import { crc32, inflateSync } from 'node:zlib';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { askEvents, askJson } from './fixtures/test-exchange.ts';

const draw = (fields: object, status?: number) =>
  askJson(Operation.IMAGES_GENERATIONS, { model: 'sandbox-image', prompt: 'a red panda', ...fields }, status);

/** Reads a PNG according to its specification, including checksums. */
function decodePng(base64: string) {
  const bytes = Buffer.from(base64, 'base64');
  expect(bytes.subarray(0, 8).toString('latin1')).toBe('\x89PNG\r\n\x1a\n');
  const chunks = new Map<string, Buffer>();
  for (let at = 8; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at);
    expect(bytes.readUInt32BE(at + 8 + length)).toBe(crc32(bytes.subarray(at + 4, at + 8 + length)));
    chunks.set(bytes.toString('latin1', at + 4, at + 8), bytes.subarray(at + 8, at + 8 + length));
    at += 12 + length;
  }
  expect([...chunks.keys()].at(-1)).toBe('IEND');
  const header = chunks.get('IHDR')!;
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const lines = inflateSync(chunks.get('IDAT')!);
  const lineBytes = 1 + Math.ceil(width / 4);
  expect(lines).toHaveLength(lineBytes * height);
  const pixel = (x: number, y: number) => (lines[y * lineBytes + 1 + (x >> 2)]! >> (6 - 2 * (x & 3))) & 3;
  return { width, height, depth: header[8], colourType: header[9], chunks, lines, pixel };
}

test('is a symmetric PNG of the requested size that depends on the prompt', async () => {
  const answer = await draw({ size: '123x77' });
  const png = decodePng(answer.data[0].b64_json);
  expect(png).toMatchObject({ width: 123, height: 77, depth: 2, colourType: 3 });
  expect(png.chunks.get('PLTE')).toHaveLength(12);
  expect(png.pixel(3, 40)).toBe(png.pixel(119, 40));
  expect(new Set(Array.from({ length: 77 }, (_, y) => png.pixel(60, y))).size).toBeGreaterThan(1);
  expect((await draw({ size: '123x77' })).data).toEqual(answer.data);
  expect((await draw({ size: '123x77', prompt: 'a blue whale' })).data).not.toEqual(answer.data);
});

test('n images differ, and usage counts them all', async () => {
  const answer = await draw({ n: 3, quality: 'low' });
  expect(new Set(answer.data.map((image: { b64_json: string }) => image.b64_json)).size).toBe(3);
  expect(decodePng(answer.data[0].b64_json)).toMatchObject({ width: 1024, height: 1024 });
  const textTokens = countTokens('a red panda');
  expect(answer.usage).toMatchObject({
    input_tokens: textTokens,
    output_tokens: 3 * 272,
    total_tokens: textTokens + 816,
  });
});

test('a transparent background makes the first colour transparent', async () => {
  expect(decodePng((await draw({ background: 'transparent' })).data[0].b64_json).chunks.get('tRNS')).toEqual(
    Buffer.from([0]),
  );
  expect(decodePng((await draw({ background: 'opaque' })).data[0].b64_json).chunks.has('tRNS')).toBe(false);
});

test('a stream shows partial images and ends with the unstreamed one and its usage', async () => {
  const fields = { model: 'sandbox-image', prompt: 'a red panda', size: '64x64' };
  const whole = await draw(fields);
  const events = await askEvents(Operation.IMAGES_GENERATIONS, { ...fields, stream: true, partial_images: 2 });
  expect(events.map((event) => [event.type, event.partial_image_index])).toEqual([
    ['image_generation.partial_image', 0],
    ['image_generation.partial_image', 1],
    ['image_generation.completed', undefined],
  ]);
  expect(events[2]).toMatchObject({ b64_json: whole.data[0].b64_json, usage: whole.usage, size: '64x64' });
  expect(decodePng(events[0].b64_json).lines.equals(decodePng(events[1].b64_json).lines)).toBe(false);
});

test.each([
  [{ prompt: '' }, 'prompt'],
  [{ prompt: 'x'.repeat(32_001) }, 'prompt'],
  [{ size: 'big' }, 'size'],
  [{ size: '4096x4096' }, 'size'],
  [{ n: 11 }, 'n'],
  [{ response_format: 'url' }, 'response_format'],
  [{ output_format: 'webp' }, 'output_format'],
])('a bad request %# is a 400 for %s', async (fields, param) => {
  expect((await draw(fields, 400)).error.param).toBe(param);
});
