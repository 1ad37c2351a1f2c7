import { readFileSync } from 'node:fs';
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base';
import { describe, expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { wavHeader } from '../../audio/wav-header.ts';
import { askEvents, askJson, bytesOf, sandbox, start } from './fixtures/test-exchange.ts';

type Fields = Record<string, string | string[]>;

/** A form as fetch would send it. */
async function formOf(fields: Fields, file: { name: string; bytes: Uint8Array } | null) {
  const form = new FormData();
  if (file !== null) form.append('file', new Blob([Buffer.from(file.bytes)]), file.name);
  for (const [name, values] of Object.entries({ model: 'sandbox-transcribe', ...fields })) {
    for (const value of [values].flat()) form.append(name, value);
  }
  const request = new Request('http://sandbox.test', { method: 'POST', body: form });
  return { body: new Uint8Array(await request.arrayBuffer()), contentType: request.headers.get('content-type')! };
}

/** Mono 16-bit samples at 8 kHz, with one amplitude for each second. */
function wav(amplitudes: readonly number[]): Uint8Array {
  const data = Buffer.alloc(amplitudes.length * 8_000 * 2);
  amplitudes.forEach((amplitude, second) => {
    for (let i = 0; i < 8_000; i++) data.writeInt16LE(i % 8 < 4 ? amplitude : -amplitude, (second * 8_000 + i) * 2);
  });
  return Buffer.concat([wavHeader(data.length, 8_000), data]);
}

/** Five loud seconds, five silent ones, two and a half quiet ones. */
const speech = {
  name: 'speech.wav',
  bytes: wav([20_000, 20_000, 20_000, 20_000, 20_000, 0, 0, 0, 0, 0, 100, 100, 100]),
};

const hear = async (
  fields: Fields = {},
  { file = speech as typeof speech | null, status = 200, operation = Operation.AUDIO_TRANSCRIPTIONS as Operation } = {},
) => {
  const { body, contentType } = await formOf(fields, file);
  return askJson(operation, body, status, { contentType });
};
const hearText = async (fields: Fields) => {
  const { body, contentType } = await formOf(fields, speech);
  const seen = await start(sandbox, Operation.AUDIO_TRANSCRIPTIONS, body, { contentType }).over;
  return { type: seen.header('content-type'), text: bytesOf(seen).toString() };
};

test('any number of files is read one after the other, since each is held in memory whole', async () => {
  const { body, contentType } = await formOf({}, speech);
  let read = 0;
  let answered = 0;
  let aheadMax = 0;
  const asked = Array.from({ length: 6 }, async () => {
    // Pieces are gone through when they are read.
    const pieces = Object.assign([body], {
      *[Symbol.iterator]() {
        read += 1;
        aheadMax = Math.max(aheadMax, read - answered);
        yield body;
      },
    });
    const seen = await start(sandbox, Operation.AUDIO_TRANSCRIPTIONS, null, { body: pieces, contentType }).over;
    answered += 1;
    return seen.status;
  });
  expect(await Promise.all(asked)).toEqual([200, 200, 200, 200, 200, 200]);
  // The answer of one may still be on its way.
  expect(aheadMax).toBeLessThanOrEqual(2);
});

describe('transcription', () => {
  test('says how long and how loud the audio is', async () => {
    const { text, usage } = await hear();
    expect(text).toBe(
      'Sandbox transcript of 13 seconds of audio. Seconds 0 to 5 sound loud. Seconds 5 to 10 are silent. Seconds 10 to 13 sound quiet.',
    );
    expect(usage).toEqual({ type: 'duration', seconds: 13 });
  });

  test('hears a file without an extension, as browsers send a recording, going by its type', async () => {
    const { text } = await hear({}, { file: { ...speech, name: 'blob' } });
    expect(text).toContain('13 seconds of audio');
  });

  test('a model that counts tokens reports tokens', async () => {
    const { text, usage } = await hear({ model: 'sandbox-transcribe-mini', prompt: 'names' });
    const [input, output] = [130 + countTokens('names'), countTokens(text)];
    expect(usage).toEqual({
      type: 'tokens',
      input_tokens: input,
      input_token_details: { text_tokens: countTokens('names'), audio_tokens: 130 },
      output_tokens: output,
      total_tokens: input + output,
    });
  });

  test('verbose_json has segments, and words if requested', async () => {
    const plain = await hear({ response_format: 'verbose_json' });
    expect(plain).toMatchObject({ task: 'transcribe', duration: 13, language: 'english' });
    expect(plain.segments.map(({ start, end }: { start: number; end: number }) => [start, end])).toEqual([
      [0, 5],
      [5, 10],
      [10, 13],
    ]);
    expect(plain.words).toBeUndefined();
    const both = await hear({ response_format: 'verbose_json', 'timestamp_granularities[]': ['word', 'segment'] });
    expect(both.words.map((word: { word: string }) => word.word).join(' ')).toBe(both.text);
    expect(both.words.every((word: { start: number; end: number }) => word.start < word.end)).toBe(true);
    expect(both.segments).toEqual(plain.segments);
  });

  test('text, srt and vtt are text', async () => {
    expect(await hearText({ response_format: 'text' })).toEqual({
      type: 'text/plain; charset=utf-8',
      text: `${(await hear()).text}\n`,
    });
    const srt = await hearText({ response_format: 'srt' });
    expect(srt.text).toContain('2\n00:00:05,000 --> 00:00:10,000\nSeconds 5 to 10 are silent.\n\n3\n');
    const vtt = await hearText({ response_format: 'vtt' });
    expect(vtt.type).toBe('text/plain; charset=utf-8');
    expect(vtt.text).toMatch(/^WEBVTT\n\n00:00:00\.000 --> 00:00:05\.000\n/);
  });

  test('a stream spells the text and ends with its tokens, whatever else the model counts', async () => {
    const { body, contentType } = await formOf({ stream: 'true' }, speech);
    const events = await askEvents(Operation.AUDIO_TRANSCRIPTIONS, body, { contentType });
    const whole = await hear();
    const done = events.pop();
    expect(whole.usage.type).toBe('duration');
    expect(done).toMatchObject({ type: 'transcript.text.done', text: whole.text });
    expect(done.usage).toMatchObject({
      type: 'tokens',
      input_tokens: expect.any(Number),
      total_tokens: expect.any(Number),
    });
    expect(events.every((event) => event.type === 'transcript.text.delta')).toBe(true);
    expect(events.map((event) => event.delta).join('')).toBe(whole.text);
  });

  test('True and False, as Python spells them in forms, say whether to stream', async () => {
    const form = await formOf({ stream: 'True' }, speech);
    const events = await askEvents(Operation.AUDIO_TRANSCRIPTIONS, form.body, { contentType: form.contentType });
    expect(events.at(-1)).toMatchObject({ type: 'transcript.text.done' });
    expect(await hear({ stream: 'False' })).toEqual(await hear());
  });

  test('a recording that is not WAV is as long as it sounds, and noise as long as its size suggests', async () => {
    const recorded = readFileSync(new URL('../../audio/fixtures/sounds/recorded.webm', import.meta.url));
    const { text, usage } = await hear({}, { file: { name: 'recorded.webm', bytes: recorded } });
    expect(usage).toEqual({ type: 'duration', seconds: 3 });
    expect(text).toContain('2.9 seconds of audio');
    const noise = await hear({}, { file: { name: 'speech.mp3', bytes: new Uint8Array(8_000 * 7) } });
    expect(noise.usage).toEqual({ type: 'duration', seconds: 7 });
  });

  test('translations are a task of their own', async () => {
    const operation = Operation.AUDIO_TRANSLATIONS;
    expect((await hear({}, { operation })).text).toBe((await hear()).text);
    expect(await hear({ response_format: 'verbose_json' }, { operation })).toMatchObject({
      task: 'translate',
      duration: 13,
    });
  });
});

describe('refusals', () => {
  test.each([
    [{ model: 'sandbox-chat' }, speech, 400, 'model'],
    [{ model: 'whisper' }, speech, 404, 'model'],
    [{}, null, 400, 'file'],
    [{}, { name: 'empty.wav', bytes: new Uint8Array(0) }, 400, 'file'],
    [{}, { name: 'long.wav', bytes: new Uint8Array(26_214_401) }, 413, 'file'],
    [{ response_format: 'xml' }, speech, 400, 'response_format'],
  ])('a bad form %# is refused', async (fields, file, status, param) => {
    expect((await hear(fields as Fields, { file, status })).error.param).toBe(param);
  });

  const good = '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nsandbox-transcribe\r\n--b--\r\n';
  test.each([
    ['application/json', '{}', 415],
    ['multipart/form-data', good, 415],
    ['multipart/form-data; boundary=c', good, 400],
    ['multipart/form-data; boundary=b', good.slice(0, 40), 400],
    ['multipart/form-data; boundary=b', good.replace('--b--', ''), 400],
    ['multipart/form-data; boundary=b', good.replace(' name="model"', ''), 400],
    ['multipart/form-data; boundary=b', good.replace('Content-Disposition', 'Content-Type'), 400],
    ['multipart/form-data; boundary=b', good.slice(0, -6).repeat(101), 400],
    ['multipart/form-data; boundary=b', good.replace('--b', '--bXX'), 400],
    ['multipart/form-data; boundary=b', '', 400],
  ])('a malformed body %# is refused', async (contentType, body, status) => {
    const { error } = await askJson(Operation.AUDIO_TRANSCRIPTIONS, body, status, { contentType });
    expect(error.type).toBe('invalid_request_error');
    expect(error.message).not.toContain('file');
  });

  test('a valid body without a file is not called malformed', async () => {
    const contentType = 'multipart/form-data; charset=utf-8; boundary="b"';
    const { error } = await askJson(Operation.AUDIO_TRANSCRIPTIONS, good, 400, { contentType });
    expect(error.param).toBe('file');
  });
});
