import { once } from 'node:events';
import {
  createReadStream,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { fastify, LogController } from 'fastify';
import OpenAI, { toFile } from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { EdgeApp } from '../../edge/app.ts';
import { installErrors } from '../../edge/http/errors.ts';
import { spooledForms } from '../../edge/http/uploads.ts';
import type { Principal } from '../../edge/principal.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { logCollector } from '../support/rpc-carriers.ts';
import { filesOfUploads } from '../support/uploads.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

let bench: InferenceBench;
const directory = mkdtempSync(join(tmpdir(), 'audio-'));
const wav = wavOf(2);
const path = join(directory, 'speech.wav');
const fileBytesMax = 26_214_400;
const sounds = new URL('../../services/models/audio/fixtures/sounds/', import.meta.url);

beforeAll(async () => {
  writeFileSync(path, wav);
  bench = await startInferenceBench();
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});
beforeEach(() => bench.renew());

const spooled = () => filesOfUploads(bench.gateway.env.dataDir);
const nothingIsLeft = () => waitFor(() => spooled().length === 0, { description: 'an empty folder of uploads' });

const transcribe = (fields: object = {}, file: Buffer = wav, name = 'speech.wav') =>
  toFile(file, name).then((upload) =>
    bench.client.audio.transcriptions.create({ file: upload, model: 'sim-transcribe', ...fields } as never),
  );

describe('a transcription', () => {
  test('answered whole instead of as a stream is turned into events, with everything the upstream reported', async () => {
    for (const response_format of ['json', 'verbose_json']) {
      await bench.renew();
      bench.simulator.next('whole');
      const stream = (await transcribe({ stream: true, response_format })) as unknown as AsyncIterable<object>;
      const [delta, done, ...rest] = await Array.fromAsync(stream);
      const { text, reportedUsage: usage } = bench.simulator.requests[0]!;
      expect(delta).toEqual({ type: 'transcript.text.delta', delta: text });
      expect(done).toMatchObject({ type: 'transcript.text.done', text, usage });
      expect('segments' in done!).toBe(response_format === 'verbose_json');
      expect(rest).toEqual([]);
      await bench.event({ success: true, audio_seconds: 3 });
    }
    const written = '{\r\n  "text": "",\n  "type": "transcription"\r\n}\n';
    bench.simulator.next({ instead: { status: 200, contentType: 'application/json', body: written } });
    const silent = (await transcribe({ stream: true })) as unknown as AsyncIterable<object>;
    expect(await Array.fromAsync(silent)).toEqual([{ type: 'transcript.text.done', text: '' }]);
    // Subtitles cannot be the text of an event.
    bench.simulator.next('whole');
    const response = await bench.client.audio.transcriptions
      .create({
        file: await toFile(wav, 'a.wav'),
        model: 'sim-transcribe',
        response_format: 'srt',
        stream: true,
      } as never)
      .asResponse();
    expect(response.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(await response.text()).toContain('-->');
  });

  test('of a file that is read while it is sent reaches the upstream part by part, unchanged', async () => {
    const { client, simulator } = bench;
    const transcript = await client.audio.transcriptions.create({
      file: createReadStream(path),
      model: 'sim-transcribe',
      prompt: 'Names: Ü, 日本',
      language: 'en',
    });
    const [truth] = simulator.requests;
    expect(transcript.text).toBe(truth!.text);
    expect(truth!.form.map(({ name }) => name).sort()).toEqual(['file', 'language', 'model', 'prompt']);
    const file = truth!.form.find(({ name }) => name === 'file')!;
    expect(file.bytes.equals(wav)).toBe(true);
    expect(file.fileName).toBe('speech.wav');
    expect(truth!.form.find(({ name }) => name === 'prompt')!.bytes.toString()).toBe('Names: Ü, 日本');
    expect(truth!.headers['content-length']).toBe(String(truth!.body.length));
    expect(truth!.headers.authorization).toBe('Bearer the-upstreams-own-key');
    await bench.event({ audio_seconds: 3, endpoint: '/v1/audio/transcriptions' });
    await nothingIsLeft();
  });

  test('that comes by speaker in a stream is charged for what came when the stream breaks off', async () => {
    const segment = {
      id: 'seg_1',
      type: 'transcript.text.segment',
      start: 0,
      end: 2,
      speaker: 'A',
      text: 'Good day to you',
    };
    const body = `data: ${JSON.stringify(segment)}\n\n`;
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
    const fields = { stream: true, response_format: 'diarized_json', chunking_strategy: 'auto' };
    const stream = (await transcribe(fields)) as unknown as AsyncIterable<object>;
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'upstream_error' });
    await bench.event({ success: false, output_tokens: 4, audio_seconds: 2 });
  });

  test("is measured by the file's own header if the upstream reports nothing", async () => {
    bench.simulator.next({ usage: 'absent' });
    await transcribe();
    await bench.event({ audio_seconds: 2 });
  });

  const nothing = { type: 'duration', seconds: 0 };
  const done = `data: ${JSON.stringify({ type: 'transcript.text.done', text: '', usage: nothing })}\n\n`;

  test.each([
    ['in JSON', { body: { text: '', usage: nothing } }, {}],
    ['by its duration', { body: { text: '', duration: 0 } }, { response_format: 'verbose_json' }],
    ['in a stream', { body: done, contentType: 'text/event-stream' }, { stream: true }],
  ])('whose upstream says %s that it heard nothing costs no seconds', async (_where, answer, fields) => {
    bench.simulator.next({ instead: { status: 200, ...answer } });
    const transcript = await transcribe(fields);
    if ('stream' in fields) await Array.fromAsync(transcript as unknown as AsyncIterable<unknown>);
    await bench.event({ success: true, audio_seconds: 0 });
  });

  const recorded = readFileSync(new URL('recorded.webm', sounds));
  const says = (body: object | string, contentType?: string) => ({ status: 200, body, contentType });
  const cue = '00:00:00,000 --> 00:00:01,000\nGood day';

  test.each([
    ['json', says({ text: 'Good day' }), 2],
    ['json', says({ text: 'Good day', usage: { input_tokens: 30, output_tokens: 2, total_tokens: 32 } }), 2],
    ['json', says({ text: 'Good day', usage: { type: 'duration', seconds: 2.94 } }), 0],
    ['verbose_json', says({ text: 'Good day', duration: 2.94 }), 2],
    ['text', says('Good day', 'text/plain'), 2],
    ['text', says('Good --> day', 'text/plain'), 3],
    ['srt', says(`1\n${cue}`, 'application/x-subrip'), 2],
    ['vtt', says(`WEBVTT\n\n${cue.replaceAll(',', '.')}`, 'text/vtt'), 2],
    ['vtt', says('WEBVTT\n\n00:00.000\t-->\t00:02.940\talign:start\nGood day', 'text/vtt'), 2],
  ])(
    'costs as much as %s as in any other format, whether or not its upstream says %j, and its words %d tokens',
    async (response_format, instead, output_tokens) => {
      bench.simulator.next({ instead });
      await transcribe({ response_format }, recorded, 'recorded.webm');
      await bench.event({ audio_seconds: 2.94, output_tokens });
    },
  );

  test.each([
    [['Thank', ' you', ' everybody', ' for', ' listening'], 5],
    [['Good day to all of you here'], 7],
  ])('costs the same when streamed as %j, and its words %d tokens', async (words, output_tokens) => {
    const deltas = words.map((delta) => ({ type: 'transcript.text.delta', delta }));
    const events = [...deltas, { type: 'transcript.text.done', text: words.join('') }];
    const body = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
    bench.simulator.next({ instead: says(body, 'text/event-stream') });
    const stream = await transcribe({ stream: true }, recorded, 'recorded.webm');
    await Array.fromAsync(stream as unknown as AsyncIterable<unknown>);
    await bench.event({ audio_seconds: 2.94, output_tokens });
  });

  test('whose length cannot be read costs at least what was heard of it', async () => {
    bench.simulator.next({ instead: says(`1\n${cue}\n\n2\n00:00:01,000 --> 00:02:03,500\nbye`, 'text/plain') });
    await transcribe({ response_format: 'srt' }, Buffer.alloc(80_000, 7));
    await bench.event({ audio_seconds: 123.5 });
  });

  test.each(['text', 'srt', 'vtt'])('as %s is plain text, whatever its upstream calls it', async (response_format) => {
    const form = new FormData();
    form.set('file', new File([wav], 'a.wav'));
    form.set('model', 'sim-transcribe');
    form.set('response_format', response_format);
    const { headers, text } = await post(form);
    expect(headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(text).toContain(bench.simulator.requests[0]!.text);
    // The length of the WAV, since plain text carries no usage.
    await bench.event({ audio_seconds: 2 });
  });

  test.each([
    ['a page', { status: 200, body: '<html>Sign in</html>', contentType: 'text/html' }],
    ['an error', { status: 200, body: { error: { message: 'out of memory' } } }],
  ])('answered with %s and status 200 is an error that nobody pays for', async (_what, instead) => {
    bench.simulator.next({ instead });
    await expect(transcribe({ response_format: 'text' })).rejects.toMatchObject({ status: 502 });
    await bench.event({ success: false, error_code: 'upstream_error', audio_seconds: 0 });
  });

  test('streams', async () => {
    const stream = (await transcribe({ stream: true })) as unknown as AsyncIterable<{ type: string; delta?: string }>;
    const events = await Array.fromAsync(stream);
    expect(events.at(-1)!.type).toBe('transcript.text.done');
    expect(events.map(({ delta }) => delta ?? '').join('')).toBe(bench.simulator.requests[0]!.text);
    await bench.event({ audio_seconds: 3 });
    await nothingIsLeft();
  });

  const chunk = (content: string, finish_reason?: string) =>
    `data: ${JSON.stringify({ object: 'transcription.chunk', choices: [{ delta: { content }, finish_reason }] })}\n\n`;
  const usageChunk = `data: ${JSON.stringify({
    object: 'transcription.chunk',
    choices: [],
    usage: { prompt_tokens: 204, completion_tokens: 3, total_tokens: 207 },
  })}\n\n`;
  const windows = [chunk('Good'), chunk(' day', 'stop'), chunk(' to'), chunk(' you', 'stop')].join('');

  test.each([
    ['', undefined, { audio_seconds: 2, output_tokens: 4 }],
    [
      usageChunk,
      { type: 'tokens', input_tokens: 204, output_tokens: 3, total_tokens: 207 },
      { input_tokens: 204, output_tokens: 3, audio_seconds: 2 },
    ],
  ])(
    "streams in OpenAI's events what vLLM writes in chunks, one window of the audio after the other",
    async (more, usage, metered) => {
      const body = `${windows}${more}data: [DONE]\n\n`;
      bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
      const stream = (await transcribe({ stream: true })) as unknown as AsyncIterable<{ type: string; delta?: string }>;
      const events = await Array.fromAsync(stream);
      expect(events.slice(0, -1).map(({ type, delta }) => [type, delta])).toEqual(
        ['Good', ' day', ' to', ' you'].map((delta) => ['transcript.text.delta', delta]),
      );
      expect(events.at(-1)).toEqual({ type: 'transcript.text.done', text: 'Good day to you', usage });
      await bench.event({ success: true, error_code: null, ...metered });
    },
  );

  test('ends its stream with an error if chunks stop before the last one', async () => {
    const body = windows + chunk(' all');
    bench.simulator.next({ instead: { status: 200, contentType: 'text/event-stream', body } });
    const stream = (await transcribe({ stream: true })) as unknown as AsyncIterable<unknown>;
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'upstream_error' });
  });

  test('is plain text if asked for, although vLLM wraps it in JSON', async () => {
    const body = { text: 'Good "day"', usage: { type: 'duration', seconds: 3 } };
    bench.simulator.next({ instead: { status: 200, body } });
    expect(await transcribe({ response_format: 'text' })).toBe('Good "day"');
    await bench.event({ success: true, audio_seconds: 3 });
  });

  test('is plain text if asked for, although whisper.cpp calls it a page', async () => {
    bench.simulator.next({ instead: { status: 200, body: ' Good day\n', contentType: 'text/html; charset=utf-8' } });
    const form = new FormData();
    form.set('file', new File([wav], 'a.wav'));
    form.set('model', 'sim-transcribe');
    form.set('response_format', 'text');
    const { status, headers, text } = await post(form);
    expect([status, text]).toEqual([200, ' Good day\n']);
    expect(headers.get('content-type')).toBe('text/plain; charset=utf-8');
    await bench.event({ success: true, audio_seconds: 2 });
  });

  test.each(['True', '1', 'YES', 'on'])('streams when asked with %s, as the upstream reads it', async (word) => {
    const form = new FormData();
    form.set('file', new File([wav], 'a.wav'));
    form.set('model', 'sim-transcribe');
    form.set('stream', word);
    const { headers, text } = await post(form);
    expect(headers.get('content-type')).toContain('text/event-stream');
    expect(text).toContain('transcript.text.done');
  });

  test('ends its stream with an error if the upstream breaks off', async () => {
    bench.simulator.next({ fault: { kind: 'reset', afterChunks: 3 } });
    const stream = (await transcribe({ stream: true })) as unknown as AsyncIterable<unknown>;
    await expect(Array.fromAsync(stream)).rejects.toMatchObject({ code: 'upstream_error' });
  });

  test("passes on refusals of the upstream in the upstream's words", async () => {
    bench.simulator.next({
      instead: {
        status: 400,
        body: { error: { message: 'Audio is too short', param: 'file', code: 'audio_too_short' } },
      },
    });
    await expect(transcribe()).rejects.toMatchObject({ status: 400, param: 'file', code: 'audio_too_short' });
    await nothingIsLeft();
  });
});

describe('the sandbox', () => {
  test('hears a file from disk', async () => {
    const file = await toFile(wav, 'speech.wav');
    const transcript = await bench.client.audio.transcriptions.create({ file, model: 'sandbox-transcribe' });
    expect(transcript.text).toContain('2 seconds');
    await bench.event({ audio_seconds: 2 });
  });
});

describe('limits', () => {
  test('25 MiB are accepted and a byte more is not', async () => {
    await transcribe({}, Buffer.alloc(fileBytesMax, 7));
    const [truth] = bench.simulator.requests;
    expect(truth!.form.find(({ name }) => name === 'file')!.bytes.length).toBe(fileBytesMax);
    await expect(transcribe({}, Buffer.alloc(fileBytesMax + 1, 7))).rejects.toMatchObject({
      status: 413,
      code: 'request_too_large',
    });
    await nothingIsLeft();
  });

  test.each([
    ['no model', { file: new File([wav], 'a.wav') }, 'model'],
    ['no file', { model: 'sim-transcribe' }, 'file'],
    ['another format', { file: new File([wav], 'a.txt', { type: 'text/plain' }), model: 'sim-transcribe' }, 'file'],
    ['an empty file', { file: new File([], 'a.wav'), model: 'sim-transcribe' }, 'file'],
  ])('%s is a 400', async (what, fields, param) => {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, value as string);
    const answer = await post(form);
    expect([answer.status, answer.json.error.param]).toEqual([400, param]);
    if (what === 'another format') {
      expect(answer.json.error.code).toBeNull();
      const formats = ['flac', 'mp3', 'mp4', 'mpeg', 'mpga', 'm4a', 'ogg', 'wav', 'webm'];
      for (const format of formats) expect(answer.json.error.message).toContain(format);
    }
    expect(bench.simulator.requests).toHaveLength(0);
    await nothingIsLeft();
  });

  test('a form that names two models is refused, since an upstream might read the other one', async () => {
    const form = new FormData();
    form.set('file', new File([wav], 'a.wav'));
    form.append('model', 'sim-transcribe');
    form.append('model', 'another');
    expect((await post(form)).json.error.code).toBe('duplicate_field');
  });

  test('a model hidden in the header of another part is refused, since an upstream might read it', async () => {
    const field = (name: string) => `--b\r\ncontent-disposition: form-data; name="${name}"`;
    const file = `${field('file')}; filename="a.wav"\r\n\r\n1\r\n--b--\r\n`;
    const hidden = `${field('prompt')}\r\n${field('model')}\r\n\r\nforbidden\r\n`;
    const body = Buffer.from(`${hidden}${field('model')}\r\n\r\nsim-transcribe\r\n${file}`);
    const answer = await post(body, 'multipart/form-data; boundary=b');
    expect([answer.status, answer.json.error.code]).toEqual([400, 'invalid_form']);
    expect(bench.simulator.requests).toHaveLength(0);
    await nothingIsLeft();
  });

  test('no character set of a form reaches the upstream, which might decode another model from it', async () => {
    const field = (name: string) => `--b\r\ncontent-disposition: form-data; name="${name}"`;
    const named = `${field('model')}\r\n\r\nsim-transcribe\r\n${field('+AG0-odel')}\r\n\r\nforbidden\r\n`;
    const body = Buffer.concat([
      Buffer.from(`${named}${field('file')}; filename="a.wav"\r\n\r\n`),
      wav,
      Buffer.from('\r\n--b--\r\n'),
    ]);
    expect((await post(body, 'multipart/form-data; charset=utf-7; boundary=b')).status).toBe(200);
    expect(bench.simulator.requests[0]!.headers['content-type']).toBe('multipart/form-data; boundary=b');
  });

  test('a hundred thousand parts are refused', async () => {
    const part = '--b\r\ncontent-disposition: form-data; name="x"\r\n\r\n1\r\n';
    const answer = await post(Buffer.from(`${part.repeat(100_000)}--b--\r\n`), 'multipart/form-data; boundary=b');
    expect(answer.status).toBe(400);
    await nothingIsLeft();
  });

  test.each(['', '--b', '--b\r\n\r\n', '--bx\r\n', '--b\r\ncontent-disposition: form-data; name="x"\r\n\r\nno end'])(
    'the broken form %j is a 400',
    async (body) => {
      const answer = await post(Buffer.from(body), 'multipart/form-data; boundary=b');
      expect(answer.status).toBe(400);
      await nothingIsLeft();
    },
  );

  test('a JSON body is a 415, and so is a form sent to chat', async () => {
    expect((await post(Buffer.from('{}'), 'application/json')).json.error.code).toBe('unsupported_content_type');
    const form = new FormData();
    form.set('model', 'sim-chat');
    expect((await post(form, undefined, '/v1/chat/completions')).status).toBe(415);
  });

  test('an endless part is cut off and leaves nothing behind', async () => {
    const upload = open(`${bench.gateway.url}/v1/audio/transcriptions`);
    upload.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n');
    let sentBytes = 0;
    const piece = Buffer.alloc(1024 * 1024);
    const answered = new Promise<number>((resolve, reject) => {
      upload.on('response', (response) => resolve(response.statusCode!));
      upload.on('error', reject);
    });
    let status = 0;
    answered.then(
      (code) => {
        status = code;
      },
      () => {},
    );
    while (status === 0 && sentBytes < 200 * piece.length) {
      sentBytes += piece.length;
      if (!upload.write(piece)) await Promise.race([answered, new Promise((resolve) => upload.once('drain', resolve))]);
    }
    expect(await answered).toBe(413);
    upload.destroy();
    await nothingIsLeft();
  });

  test('an edge that starts on the same folder removes abandoned uploads, but none of a living process', async () => {
    const uploads = join(bench.gateway.env.dataDir, 'uploads');
    const left = join(uploads, '7-0123456789ab');
    mkdirSync(left, { recursive: true });
    writeFileSync(join(left, 'upload'), 'left behind');
    const upload = open(`${bench.gateway.url}/v1/audio/transcriptions`);
    upload.on('error', () => {});
    upload.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n');
    await waitFor(() => spooled().length === 2, { description: 'the upload on disk' });
    // In this process, but with the same process id, as in another container.
    const another = fastify();
    await spooledForms(another as unknown as EdgeApp, uploads);
    expect(existsSync(left)).toBe(false);
    expect(spooled()).toHaveLength(1);
    await another.close();
    expect(spooled()).toHaveLength(1);
    upload.destroy();
    await nothingIsLeft();
  });

  test('a client that leaves in the middle of its upload leaves no file behind', async () => {
    const upload = open(`${bench.gateway.url}/v1/audio/transcriptions`);
    upload.on('error', () => {});
    upload.write('--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n');
    upload.write(Buffer.alloc(100_000));
    await waitFor(() => spooled().length === 1, { description: 'the upload on disk' });
    upload.destroy();
    await nothingIsLeft();
  });

  test('a client that has left before there was a file of its upload leaves none either', async () => {
    const folder = join(directory, 'uploads');
    const edge = fastify();
    await spooledForms(edge as unknown as EdgeApp, folder);
    const form = '--b\r\ncontent-disposition: form-data; name="model"\r\n\r\na\r\n--b--\r\n';
    // The form has arrived whole, and its reading begins when the client has left.
    edge.addHook('preParsing', async (request, reply) => {
      const left = once(reply.raw, 'close');
      request.raw.socket.destroy();
      await left;
      return Readable.from([Buffer.from(form)]);
    });
    const spooledTo = new Promise<string | null>((resolve) => {
      edge.post('/', async (request) => resolve(request.spooledTo));
    });
    const upload = open(await edge.listen({ port: 0 }));
    upload.on('error', () => {});
    upload.end(form);
    expect(existsSync((await spooledTo)!)).toBe(false);
    await edge.close();
  });

  test('uploads take a quarter of the free disk at most, of which each user leaves some to others: one without room is a 503, leaves no file, and finds room once others are gone', async () => {
    const mebibyte = 1024 * 1024;
    const dataDir = join(directory, 'shared');
    const uploads = join(dataDir, 'uploads');
    const edge = fastify();
    installErrors(edge as unknown as EdgeApp);
    edge.decorateRequest('principal', null);
    edge.addHook('onRequest', async (request) => {
      request.principal = { userId: request.headers.user } as Principal;
    });
    let refused = 0;
    await spooledForms(edge as unknown as EdgeApp, uploads, {
      onNoRoom: () => {
        refused += 1;
      },
      freeBytes: async () => 8 * mebibyte,
    });
    edge.post('/', async () => 'taken');
    const url = await edge.listen({ port: 0 });
    const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="a.wav"\r\n\r\n';
    const headers = (user: string) => ({ user, 'content-type': 'multipart/form-data; boundary=b' });
    const statusOf = async (user: string, bytes: number): Promise<number> => {
      const body = `${head}${'x'.repeat(bytes)}\r\n--b--\r\n`;
      return (await fetch(url, { method: 'POST', headers: headers(user), body })).status;
    };
    const begun = () => filesOfUploads(dataDir);
    const nobodyUploads = () => waitFor(() => begun().length === 0, { description: 'an empty folder of uploads' });

    // The only one has room even if it is larger.
    expect(await statusOf('one', 3 * mebibyte)).toBe(200);
    await nobodyUploads();
    const upload = request(url, { method: 'POST', headers: headers('one') });
    upload.on('error', () => {});
    upload.write(head);
    upload.write(Buffer.alloc(1.25 * mebibyte));
    const sizes = () =>
      (readdirSync(uploads, { recursive: true }) as string[]).map(
        (name) => statSync(join(uploads, name), { throwIfNoEntry: false })?.size ?? 0,
      );
    await waitFor(() => sizes().some((bytes) => bytes > 1.25 * mebibyte), { description: 'what was sent, on disk' });
    expect(await statusOf('one', 0.5 * mebibyte)).toBe(503);
    expect(refused).toBe(1);
    expect(await statusOf('two', 0.25 * mebibyte)).toBe(200);
    await waitFor(() => begun().length === 1, { description: 'the removal of the others' });
    upload.destroy();
    await waitFor(async () => (await statusOf('one', 1.25 * mebibyte)) === 200, { description: 'room again' });
    await nobodyUploads();
    await edge.close();
  });

  test('an upload for which the disk fails is a 503, even if its file can no longer be removed, and logged once for all', async () => {
    const uploads = join(directory, 'failing');
    const { lines, logger: loggerInstance } = logCollector('info');
    const edge = fastify({ loggerInstance, logController: new LogController({ disableRequestLogging: true }) });
    installErrors(edge as unknown as EdgeApp);
    edge.decorateRequest('principal', null);
    await spooledForms(edge as unknown as EdgeApp, uploads, {
      // What a file system that has become read-only does to a file that is being written.
      async freeBytes(folder) {
        const file = readdirSync(folder, { withFileTypes: true }).find(
          (entry) => entry.isFile() && entry.name !== 'lock',
        );
        rmSync(join(folder, file!.name));
        mkdirSync(join(folder, file!.name));
        throw new Error('EROFS: read-only file system');
      },
    });
    edge.post('/', async () => 'taken');
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    for (let upload = 0; upload < 3; upload += 1) {
      const { statusCode } = await edge.inject({ method: 'POST', url: '/', headers, payload: '--b--\r\n' });
      expect(statusCode).toBe(503);
    }
    expect(lines.filter(({ msg }) => String(msg).includes('DATA_DIR'))).toHaveLength(1);
    await edge.close();
  });

  test('an upload that comes in pieces of one byte is not written to disk byte by byte', async () => {
    const file = await openFile(path);
    const write = vi.spyOn(Object.getPrototypeOf(file) as typeof file, 'appendFile');
    await file.close();
    try {
      const upload = open(`${bench.gateway.url}/v1/audio/transcriptions`);
      const form = `--b\r\ncontent-disposition: form-data; name="prompt"\r\n\r\n${'x'.repeat(20_000)}\r\n--b--\r\n`;
      upload.flushHeaders();
      const [socket] = (await once(upload, 'socket')) as [Socket];
      socket.write([...form].map((character) => `1\r\n${character}\r\n`).join(''));
      upload.end();
      expect(((await once(upload, 'response')) as [IncomingMessage])[0].statusCode).toBe(400);
      expect(write.mock.calls.length).toBeGreaterThan(0);
      expect(write.mock.calls.length).toBeLessThan(100);
    } finally {
      write.mockRestore();
    }
  });

  test('a client that leaves before its transcript arrives aborts the upstream within a second', async () => {
    bench.simulator.next('hang-before-head');
    const leaving = new AbortController();
    const file = await toFile(wav, 'speech.wav');
    const call = bench.client.audio.transcriptions.create(
      { file, model: 'sim-transcribe' },
      { signal: leaving.signal },
    );
    await bench.simulator.waitFor((entry) => entry.operation === 'transcriptions' && entry.model !== '');
    leaving.abort();
    await expect(call).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await bench.simulator.waitFor(({ outcome }) => outcome === 'client-left', { timeoutMs: 1_000 });
    await nothingIsLeft();
    await bench.event({ success: false, error_code: 'client_closed_request', audio_seconds: 0 });
  });
});

const post = (body: FormData | Buffer, contentType?: string, path = '/v1/audio/transcriptions') =>
  bench.gateway.call(
    'POST',
    path,
    bench.key.key,
    body,
    contentType === undefined ? {} : { 'content-type': contentType },
  );

const open = (url: string) =>
  request(url, {
    method: 'POST',
    headers: { authorization: `Bearer ${bench.key.key}`, 'content-type': 'multipart/form-data; boundary=b' },
  });
