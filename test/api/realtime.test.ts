import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  append,
  openTalk,
  quiet,
  type RealtimeOptions,
  sessionUpdate,
  tone,
  utteranceEvents,
} from '../support/realtime-client.ts';
import { type RealtimeBench, startRealtimeBench } from '../support/realtime-upstream.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: RealtimeBench;

beforeAll(async () => {
  bench = await startRealtimeBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const talk = (options: RealtimeOptions = {}) => openTalk(bench.gateway.url, { key: bench.key.key, ...options });
const manual = { turn_detection: null };
const listening = (limits: object) => ({ turn_detection: { type: 'server_vad', ...limits } });
const completed = 'conversation.item.input_audio_transcription.completed';

describe('a session that the gateway splits into utterances', () => {
  test('hears speech begin and end, and transcribes it', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe'));
    for (const part of [quiet(600), tone(1_000), quiet(1_000)]) session.say(append(part));
    const done = await session.event(completed);
    expect(session.events.map(({ type }) => type)).toEqual(utteranceEvents);
    expect(new Set(session.events.map(({ event_id }) => event_id)).size).toBe(session.events.length);
    const started = await session.event('input_audio_buffer.speech_started');
    // 300 ms of padding before 600 ms.
    expect(started.audio_start_ms).toBeGreaterThanOrEqual(250);
    expect(started.audio_start_ms).toBeLessThanOrEqual(350);
    const stopped = await session.event('input_audio_buffer.speech_stopped');
    // 500 ms of silence after 1,600 ms.
    expect(stopped.audio_end_ms).toBeGreaterThanOrEqual(2_050);
    expect(stopped.audio_end_ms).toBeLessThanOrEqual(2_200);
    expect(done).toMatchObject({ item_id: started.item_id, content_index: 0, usage: { type: 'duration' } });
    expect(done.transcript).toContain('Sandbox transcript');
    expect(done.transcript).toBe((await session.event('conversation.item.input_audio_transcription.delta')).delta);
    const event = await bench.event({ endpoint: '/v1/realtime', success: true, model: 'sandbox-transcribe' });
    expect(event.audio_seconds).toBe(done.usage.seconds);
  });

  test('is known in usage by the x-request-id that its upgrade was answered with', async () => {
    await using session = await talk();
    expect(session.requestId).toMatch(/^req_/);
    session.say(sessionUpdate('sandbox-transcribe', manual));
    session.say(append(tone(500)));
    session.say({ type: 'input_audio_buffer.commit' });
    await session.event(completed);
    expect((await bench.event({ endpoint: '/v1/realtime' })).request_id).toBe(session.requestId);
  });

  test('without turn detection transcribes what is committed, item by item', async () => {
    await using session = await talk({ prefix: '/api/v1' });
    session.say(sessionUpdate('sandbox-transcribe', manual));
    for (let time = 0; time < 2; time++) {
      session.say(append(tone(500)));
      session.say({ type: 'input_audio_buffer.commit' });
    }
    const items = [await session.event(completed), await session.event(completed, 2)];
    const committed = session.events.filter(({ type }) => type === 'input_audio_buffer.committed');
    expect(committed.map(({ previous_item_id }) => previous_item_id)).toEqual([null, committed[0]!.item_id]);
    expect(items.map(({ item_id }) => item_id).sort()).toEqual(committed.map(({ item_id }) => item_id).sort());
  });

  test('drops what is cleared, and refuses an empty commit with the id of its event', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe', manual));
    session.say(append(tone(500)));
    session.say({ type: 'input_audio_buffer.clear' });
    session.say({ type: 'input_audio_buffer.commit', event_id: 'mine' });
    expect((await session.event('error')).error).toMatchObject({
      type: 'invalid_request_error',
      code: 'input_audio_buffer_commit_empty',
      event_id: 'mine',
    });
    expect(session.closed).toBeNull();
    expect(session.events.some(({ type }) => type === 'input_audio_buffer.cleared')).toBe(true);
  });

  test('says that no speech was heard when what turn detection left out is committed', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe'));
    session.say(append(quiet(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event('error')).error).toMatchObject({
      code: 'input_audio_buffer_commit_empty',
      message: expect.stringContaining('no uncommitted speech'),
    });
    expect(session.closed).toBeNull();
  });

  test('treats speech that continues during a reconfiguration as one utterance, up to the silence last asked for', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe', listening({ silence_duration_ms: 2_000 })));
    session.say(append(tone(500)));
    await session.event('input_audio_buffer.speech_started');
    for (const silence_duration_ms of [300, 1_000])
      session.say(sessionUpdate(null, listening({ silence_duration_ms })));
    session.say(sessionUpdate(null, manual));
    session.say(append(quiet(400)));
    session.say(sessionUpdate(null, listening({ silence_duration_ms: 1_100 })));
    session.say(append(quiet(1_200)));
    const stopped = await session.event('input_audio_buffer.speech_stopped');
    // The silence is counted from where listening began.
    expect(stopped.audio_end_ms).toBe(2_000);
    await session.event(completed);
    await bench.event({ model: 'sandbox-transcribe', audio_seconds: 2, success: true });
    expect(session.events.filter(({ type }) => type === 'input_audio_buffer.speech_started')).toHaveLength(1);
  });

  test('hears speech that had just begun when it was reconfigured from its beginning', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe'));
    for (const part of [quiet(500), tone(40)]) session.say(append(part));
    session.say(sessionUpdate(null, listening({ silence_duration_ms: 300 })));
    for (const part of [tone(500), quiet(400)]) session.say(append(part));
    expect((await session.event('input_audio_buffer.speech_started')).audio_start_ms).toBe(200);
  });

  test('takes what was appended before it listened for speech as the beginning of the first speech', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe', manual));
    session.say(append(tone(500)));
    session.say({ type: 'input_audio_buffer.commit' });
    session.say(append(quiet(1_000)));
    session.say(sessionUpdate(null, listening({ silence_duration_ms: 300 })));
    for (const part of [quiet(1_000), tone(700), quiet(400)]) session.say(append(part));
    const done = await session.event(completed, 2);
    const started = await session.event('input_audio_buffer.speech_started');
    expect(started).toMatchObject({ audio_start_ms: 500, item_id: done.item_id });
    expect((await session.event('input_audio_buffer.speech_stopped')).audio_end_ms).toBe(3_500);
    await bench.event({ model: 'sandbox-transcribe', audio_seconds: 3, success: true });
  });

  test('reports times of the session, whatever the format of its audio was before', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe'));
    session.say(append(quiet(2_000)));
    session.say(sessionUpdate(null, { format: { type: 'audio/pcmu' } }));
    // Silence in mu-law, and a wave that is not silent.
    session.say(append(Buffer.alloc(8_000, 0xff)));
    session.say(append(Buffer.from(Array.from({ length: 8_000 }, (_, index) => (index % 16 < 8 ? 0x10 : 0x90)))));
    session.say(append(Buffer.alloc(8_000, 0xff)));
    expect((await session.event('input_audio_buffer.speech_started')).audio_start_ms).toBe(2_700);
    expect((await session.event('input_audio_buffer.speech_stopped')).audio_end_ms).toBe(4_500);
  });

  test('hears samples whole, wherever their bytes are split', async () => {
    const deployment = { model: 'cut', base_url: bench.simulator.url, upstream_model: 'sim-transcribe' };
    await bench.admin('POST', '/models', { name: 'cut', operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', deployment);
    await using session = await talk();
    session.say(sessionUpdate('cut', manual));
    const audio = tone(500);
    for (let at = 0; at < audio.length; at += 333) session.say(append(audio.subarray(at, at + 333)));
    session.say({ type: 'input_audio_buffer.commit' });
    // The rest of a sample goes with the audio to which it belongs.
    session.say(append(audio.subarray(0, 4_801)));
    session.say({ type: 'input_audio_buffer.clear' });
    session.say(append(audio));
    session.say({ type: 'input_audio_buffer.commit' });
    const texts = [(await session.event(completed)).transcript, (await session.event(completed, 2)).transcript];
    for (const transcript of texts) {
      const { form } = bench.simulator.requests.find(({ text }) => text === transcript)!;
      expect(
        form
          .find(({ name }) => name === 'file')!
          .bytes.subarray(44)
          .equals(audio),
      ).toBe(true);
    }
  });

  test('refuses audio beyond what may await a commit as a whole, and keeps what came before', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe', { ...manual, format: { type: 'audio/pcmu' } }));
    session.say(append(Buffer.alloc(119 * 8_000)));
    session.say({ ...append(Buffer.alloc(2 * 8_000)), event_id: 'mine' });
    expect((await session.event('error')).error).toMatchObject({
      code: 'input_audio_buffer_full',
      param: 'audio',
      event_id: 'mine',
    });
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: 119 });
  });

  test.each(['audio/pcmu', 'audio/pcma'])('hears %s', async (type) => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe', { ...manual, format: { type } }));
    session.say(append(Buffer.alloc(8_000, 0x10)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: 1 });
  });

  test('transcribes four utterances at a time, and hears no further one before one of them is done', async () => {
    const deployment = { model: 'four', base_url: bench.simulator.url, upstream_model: 'sim-transcribe' };
    await bench.admin('POST', '/models', { name: 'four', operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', deployment);
    await using session = await talk();
    session.say(sessionUpdate('four', manual));
    await session.event('session.updated');
    const released = Promise.withResolvers<void>();
    bench.simulator.next({ hold: { until: released.promise } }, 6);
    for (let utterance = 0; utterance < 6; utterance++) {
      session.say(append(tone(500)));
      session.say({ type: 'input_audio_buffer.commit' });
    }
    const transcribing = () => bench.simulator.requests.filter(({ operation }) => operation === 'transcriptions');
    await waitFor(() => transcribing().length === 4, { description: 'four transcriptions' });
    released.resolve();
    await session.event(completed, 6);
    const ends = session.events.map(({ type }) => type).filter((type) => /committed|completed/.test(type));
    expect(ends.indexOf(completed)).toBe(4);
  });

  test('aborts its upstream within a second when its client leaves', async () => {
    const deployment = { model: 'left', base_url: bench.simulator.url, upstream_model: 'sim-transcribe' };
    await bench.admin('POST', '/models', { name: 'left', operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', deployment);
    const session = await talk();
    session.say(sessionUpdate('left', manual));
    await session.event('session.updated');
    bench.simulator.next('hang-before-head');
    session.say(append(tone(500)));
    session.say({ type: 'input_audio_buffer.commit' });
    await bench.simulator.waitFor(({ operation, model }) => operation === 'transcriptions' && model !== '');
    session.socket.terminate();
    await bench.simulator.waitFor(({ outcome }) => outcome === 'client-left', { timeoutMs: 1_000 });
    await bench.event({ success: false, error_code: 'client_closed_request', audio_seconds: 0 });
  });

  test('reports when an item fails, and continues', async () => {
    await bench.admin('POST', '/models', { name: 'files', operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', {
      model: 'files',
      base_url: bench.simulator.url,
      upstream_model: 'sim-transcribe',
    });
    await using session = await talk();
    session.say(sessionUpdate('files', manual));
    await session.event('session.updated');
    bench.simulator.next('server-error');
    for (let time = 0; time < 2; time++) {
      session.say(append(tone(500)));
      session.say({ type: 'input_audio_buffer.commit' });
      if (time === 0) await session.event('conversation.item.input_audio_transcription.failed');
    }
    const done = await session.event(completed);
    // An upstream without WebSockets got a WAV file for each utterance.
    const [, second] = bench.simulator.requests.filter(({ operation }) => operation === 'transcriptions');
    expect(done.transcript).toBe(second!.text);
    const file = second!.form.find(({ name }) => name === 'file')!;
    expect(file.bytes.length).toBe(44 + 24_000);
    await bench.event({ success: true, model: 'files', audio_seconds: 1 });
  });

  test('reads a transcript of a file with a byte order mark before it', async () => {
    const model = 'files-marked';
    await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', {
      model,
      base_url: bench.simulator.url,
      upstream_model: 'sim-transcribe',
    });
    await using session = await talk();
    session.say(sessionUpdate(model, manual));
    await session.event('session.updated');
    const usage = { type: 'tokens', input_tokens: 9, output_tokens: 2, total_tokens: 11 };
    bench.simulator.next({ instead: { status: 200, body: `\ufeff${JSON.stringify({ text: 'Hello.', usage })}` } });
    session.say(append(tone(500)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect(await session.event(completed)).toMatchObject({ transcript: 'Hello.', usage });
    await bench.event({ model, success: true, input_tokens: 9, output_tokens: 2 });
  });

  test('is charged for the words of a transcript whose upstream reports no usage, as a call would be', async () => {
    const model = 'files-silent';
    await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', {
      model,
      base_url: bench.simulator.url,
      upstream_model: 'sim-transcribe',
    });
    await using session = await talk();
    session.say(sessionUpdate(model, manual));
    await session.event('session.updated');
    const body = JSON.stringify({ text: 'Thank you everybody for listening' });
    bench.simulator.next({ instead: { status: 200, body } });
    session.say(append(tone(2_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: 2 });
    await bench.event({ model, success: true, output_tokens: 5, audio_seconds: 2 });
  });

  test.each([
    [400, { error: { message: 'Too noisy', code: 'noise' } }, 400, 'invalid_request_error', 'noise'],
    [429, {}, 429, 'requests', 'rate_limit_exceeded'],
    [503, {}, 503, 'service_unavailable_error', 'server_is_overloaded'],
    [504, {}, 504, 'server_error', 'upstream_timeout'],
  ])(
    'reports an item that its upstream answered with %i as a call, to the client and in usage',
    async (answered, body, status, type, code) => {
      const model = `files-${answered}`;
      await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
      await bench.admin('POST', '/deployments', {
        model,
        base_url: bench.simulator.url,
        upstream_model: 'sim-transcribe',
      });
      await using session = await talk();
      session.say(sessionUpdate(model, manual));
      await session.event('session.updated');
      bench.simulator.next({ instead: { status: answered, body } });
      session.say(append(tone(500)));
      session.say({ type: 'input_audio_buffer.commit' });
      const { error } = await session.event('conversation.item.input_audio_transcription.failed');
      expect([error.type, error.code]).toEqual([type, code]);
      await bench.event({ model, success: false, status, error_code: code });
    },
  );

  test('retries an item that an upstream answers with success and an error at another one, and reports the last error', async () => {
    const model = 'files-twice';
    await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
    for (const upstream_model of ['first-transcribe', 'second-transcribe']) {
      await bench.admin('POST', '/deployments', { model, base_url: bench.simulator.url, upstream_model });
    }
    const answer = (body: unknown) => ({ instead: { status: 200, body } });
    await using session = await talk();
    session.say(sessionUpdate(model, manual));
    await session.event('session.updated');
    const say = () => {
      session.say(append(tone(500)));
      session.say({ type: 'input_audio_buffer.commit' });
    };
    bench.simulator.next(answer({ error: { message: 'Overloaded', code: 503 }, text: 'Broken' }));
    say();
    expect((await session.event(completed)).transcript).toBe(bench.simulator.requests.at(-1)!.text);
    expect(new Set(bench.simulator.requests.slice(-2).map((request) => request.model)).size).toBe(2);
    bench.simulator.next(answer({ status: 'loading' }));
    bench.simulator.next(answer({ error: { message: 'Invalid file', code: 400 }, text: '' }));
    say();
    const failed = await session.event('conversation.item.input_audio_transcription.failed');
    expect(failed.error.message).toContain('Invalid file');
  });
});

test.each([
  [
    'that the gateway cuts into utterances',
    'dear',
    () => ({ dialect: 'sandbox', upstream_model: 'sandbox-transcribe' }),
  ],
  [
    'that is relayed',
    'dear/relay',
    () => ({ base_url: bench.openai.url, upstream_model: 'relay-upstream', dialect: 'openai' }),
  ],
])('close to its cap, a session %s continues for as long as there is room', async (_what, model, deployment) => {
  await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
  await bench.admin('POST', '/deployments', { model, ...deployment() });
  await bench.admin('POST', '/prices', { model, per_audio_second_usd: 1 });
  const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 2 });
  const known = async () => (await bench.gateway.call('GET', `/v1/models/${model}`, key)).json.is_serviceable;
  await waitFor(known, { description: 'the model' });
  await using session = await talk({ key });
  session.say(sessionUpdate(model, manual));
  const utter = () => {
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
  };
  for (const ordinal of [1, 2]) {
    utter();
    // The gateway's own transcriptions are awaited while the client speaks.
    if (model !== 'dear') await session.event(completed, ordinal);
  }
  utter();
  expect((await session.event('error')).error.code).toBe('spend_cap_exceeded');
  await waitFor(() => session.closed, { description: 'the close' });
  expect(session.closed!.code).toBe(4000);
  expect(session.events.filter(({ type }) => type === completed)).toHaveLength(2);
});

describe('vLLM', () => {
  test('transcribes while it hears, at its own sample rate', async () => {
    await using session = await talk();
    session.say(sessionUpdate('vllm', manual));
    for (let time = 0; time < 3; time++) session.say(append(tone(500)));
    session.say({ type: 'input_audio_buffer.commit' });
    const done = await session.event(completed);
    // 1.5 s at 16 kHz, give or take a sample per boundary.
    const bytes = Number(/heard (\d+) bytes/.exec(done.transcript)![1]);
    expect(Math.abs(bytes - 48_000)).toBeLessThanOrEqual(8);
    expect(done.usage).toEqual({ type: 'tokens', input_tokens: 20, output_tokens: 4, total_tokens: 24 });
    const deltas = session.events.filter(({ type }) => type.endsWith('.delta'));
    expect(deltas.length).toBeGreaterThanOrEqual(3);
    expect(bench.vllm.connections[0]!.said[0]).toMatchObject({ type: 'session.update', model: 'vllm-upstream' });
    await bench.event({ model: 'vllm', input_tokens: 20, output_tokens: 4, success: true });
  });

  test('is left when what it hears is cleared', async () => {
    await using session = await talk();
    session.say(sessionUpdate('vllm', manual));
    session.say(append(tone(500)));
    await waitFor(() => bench.vllm.connections.length === 1, { description: 'a connection' });
    session.say({ type: 'input_audio_buffer.clear' });
    await waitFor(() => bench.vllm.connections[0]!.closed, { description: 'its end' });
  });

  test('gets every utterance of its sessions, even if its model also has deployments of another dialect', async () => {
    const model = 'of-two-dialects';
    await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', { model, base_url: bench.vllm.url, dialect: 'vllm' });
    await bench.admin('POST', '/deployments', { model, base_url: bench.openai.url, dialect: 'openai' });
    await using session = await talk();
    session.say(sessionUpdate(model, manual));
    for (let time = 1; time <= 3; time++) {
      session.say(append(tone(500)));
      session.say({ type: 'input_audio_buffer.commit' });
      await session.event(completed, time);
    }
    expect(bench.vllm.connections).toHaveLength(3);
    expect(bench.openai.connections).toHaveLength(0);
  });
});

describe('the beta shape', () => {
  test('is answered in the beta shape', async () => {
    await using session = await talk();
    session.say({
      type: 'transcription_session.update',
      session: {
        input_audio_format: 'g711_ulaw',
        input_audio_transcription: { model: 'sandbox-transcribe', language: 'en' },
        turn_detection: null,
      },
    });
    expect((await session.event('transcription_session.updated')).session).toMatchObject({
      input_audio_format: 'g711_ulaw',
      input_audio_transcription: { model: 'sandbox-transcribe', language: 'en' },
      turn_detection: null,
    });
    session.say(append(Buffer.alloc(8_000, 0x10)));
    session.say({ type: 'input_audio_buffer.commit' });
    await session.event(completed);
  });
});

describe('unreadable events', () => {
  test.each([
    ['no JSON', '{', 'invalid_event', null],
    ['no object', '[]', 'invalid_event', null],
    ['another type', '{"type":"response.create"}', 'invalid_value', 'type'],
    ['a session of another type', '{"type":"session.update","session":{"type":"realtime"}}', null, 'session.type'],
    [
      'another format',
      '{"type":"session.update","session":{"audio":{"input":{"format":{"type":"mp3"}}}}}',
      'invalid_value',
      'session.audio.input.format',
    ],
    [
      'audio before a model',
      '{"type":"input_audio_buffer.append","audio":"AAAA"}',
      'missing_required_field',
      undefined,
    ],
  ])('%s is answered with an error, and the session continues', async (_what, text, code, param) => {
    await using session = await talk();
    session.socket.send(text);
    const { error } = await session.event('error');
    expect(error).toMatchObject({ type: 'invalid_request_error', code });
    if (param !== undefined) expect(error.param).toBe(param);
    session.say(sessionUpdate(null));
    await session.event('session.updated');
  });
});
