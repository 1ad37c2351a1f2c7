import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { askEvents, askJson, bytesOf, sandbox, start } from './fixtures/test-exchange.ts';

const request = (fields: object) => ({ model: 'sandbox-speech', voice: 'alloy', input: 'Hello there', ...fields });
const speak = async (fields: object) => {
  const seen = await start(sandbox, Operation.AUDIO_SPEECH, request(fields)).over;
  expect(seen.status).toBe(200);
  return { type: seen.header('content-type'), bytes: bytesOf(seen), pieces: seen.chunks.length };
};
/** 60 ms per character at 24 kHz, 16 bits. */
const bytesPerCharacter = 0.06 * 24_000 * 2;

test('a WAV is well-formed, sounds, and lasts as long as its text', async () => {
  const { type, bytes } = await speak({ response_format: 'wav' });
  expect(type).toBe('audio/wav');
  expect(bytes.toString('latin1', 0, 4) + bytes.toString('latin1', 8, 16)).toBe('RIFFWAVEfmt ');
  expect(bytes.readUInt32LE(4)).toBe(bytes.length - 8);
  expect([20, 22, 34].map((at) => bytes.readUInt16LE(at))).toEqual([1, 1, 16]);
  expect(bytes.readUInt32LE(24)).toBe(24_000);
  expect(bytes.readUInt32LE(40)).toBe('Hello there'.length * bytesPerCharacter);
  expect(bytes.length).toBe(44 + bytes.readUInt32LE(40));
  const sample = (character: number) =>
    Math.max(
      ...Array.from({ length: 300 }, (_, i) =>
        Math.abs(bytes.readInt16LE(44 + character * bytesPerCharacter + 1000 + i * 2)),
      ),
    );
  expect(sample(0)).toBeGreaterThan(4_000);
  expect(sample('Hello'.length)).toBe(0);
});

test('PCM is the WAV without its header, in pieces; speed shortens it', async () => {
  const [wav, pcm, fast] = [
    await speak({ response_format: 'wav' }),
    await speak({ response_format: 'pcm' }),
    await speak({ response_format: 'pcm', speed: 2 }),
  ];
  expect(pcm.type).toBe('audio/pcm');
  expect(pcm.bytes.equals(wav.bytes.subarray(44))).toBe(true);
  expect(pcm.pieces).toBeGreaterThan(2);
  expect(fast.bytes.length).toBe(pcm.bytes.length / 2);
});

test('a character counts once however many code units it takes: 4,096 of any kind are spoken', async () => {
  const { bytes } = await speak({ input: '\u{1f600}'.repeat(4_096) });
  expect(bytes.length).toBeGreaterThan(0);
});

test('MP3 is the default: whole MPEG frames of silence as long as the text', async () => {
  const { type, bytes } = await speak({});
  expect(type).toBe('audio/mpeg');
  let frames = 0;
  for (let at = 0; at < bytes.length; at += 192, frames++) {
    // Sync, MPEG-2 Layer III, 64 kbit/s, 24 kHz, mono; then only zeros.
    expect(bytes.readUInt32BE(at)).toBe(0xfff384c0);
    expect(bytes.subarray(at + 4, at + 192).every((byte) => byte === 0)).toBe(true);
  }
  expect(bytes.length).toBe(frames * 192);
  expect(frames).toBe(Math.ceil(('Hello there'.length * 60) / 24));
});

test('AAC is whole ADTS frames', async () => {
  const { type, bytes } = await speak({ response_format: 'aac' });
  expect(type).toBe('audio/aac');
  for (let at = 0; at < bytes.length; ) {
    expect(bytes.readUInt16BE(at)).toBe(0xfff1);
    const length = ((bytes[at + 3]! & 3) << 11) | (bytes[at + 4]! << 3) | (bytes[at + 5]! >> 5);
    expect(length).toBe(11);
    at += length;
    expect(at).toBeLessThanOrEqual(bytes.length);
  }
});

test('SSE carries the same bytes and ends with usage', async () => {
  const { bytes } = await speak({ response_format: 'pcm' });
  const events = await askEvents(Operation.AUDIO_SPEECH, request({ response_format: 'pcm', stream_format: 'sse' }));
  const deltas = events.filter((event) => event.type === 'speech.audio.delta');
  expect(Buffer.concat(deltas.map((event) => Buffer.from(event.audio, 'base64'))).equals(bytes)).toBe(true);
  const { type, usage } = events.at(-1);
  expect(type).toBe('speech.audio.done');
  expect(usage.total_tokens).toBe(usage.input_tokens + usage.output_tokens);
  expect(events).toHaveLength(deltas.length + 1);
});

test.each([
  [{ input: '' }, 'input'],
  [{ input: 'x'.repeat(4_097) }, 'input'],
  [{ voice: undefined }, 'voice'],
  [{ speed: 5 }, 'speed'],
  [{ response_format: 'opus' }, 'response_format'],
  [{ response_format: 'flac' }, 'response_format'],
  [{ response_format: 'midi' }, 'response_format'],
])('a bad request %# is a 400 for %s', async (fields, param) => {
  const { error } = await askJson(Operation.AUDIO_SPEECH, request(fields), 400);
  expect(error.param).toBe(param);
});

test('a format that cannot be encoded is answered with those that can', async () => {
  const { error } = await askJson(Operation.AUDIO_SPEECH, request({ response_format: 'opus' }), 400);
  expect(error.message).toMatch(/wav and pcm.*mp3 and aac/);
});
