import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import {
  append,
  openTalk,
  quiet,
  type RealtimeOptions,
  type RealtimeTalk,
  sessionUpdate,
  tone,
  UpgradeRefused,
  utteranceEvents,
} from '../support/realtime-client.ts';
import { type RealtimeUpstream, type RealtimeUpstreams, startRealtimeUpstreams } from '../support/realtime-upstream.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: InferenceBench;
let upstreams: RealtimeUpstreams;
let openai: RealtimeUpstream;
let vllm: RealtimeUpstream;

const logLines: string[] = [];
beforeAll(async () => {
  bench = await startInferenceBench({ logLines });
  upstreams = await startRealtimeUpstreams(bench);
  ({ openai, vllm } = upstreams);
});
afterAll(async () => {
  await bench?.[Symbol.asyncDispose]();
  await upstreams?.[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await bench.renew();
  openai.connections.length = 0;
  vllm.connections.length = 0;
});

const talk = (options: RealtimeOptions = {}) => openTalk(bench.gateway.url, { key: bench.key.key, ...options });
const manual = { turn_detection: null };
const listening = (limits: object) => ({ turn_detection: { type: 'server_vad', ...limits } });
const completed = 'conversation.item.input_audio_transcription.completed';

describe('a session that the gateway cuts into utterances', () => {
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
    // 500 ms of silence behind 1,600 ms.
    expect(stopped.audio_end_ms).toBeGreaterThanOrEqual(2_050);
    expect(stopped.audio_end_ms).toBeLessThanOrEqual(2_200);
    expect(done).toMatchObject({ item_id: started.item_id, content_index: 0, usage: { type: 'duration' } });
    expect(done.transcript).toContain('Sandbox transcript');
    expect(done.transcript).toBe((await session.event('conversation.item.input_audio_transcription.delta')).delta);
    const event = await bench.event({ endpoint: '/v1/realtime', success: true, model: 'sandbox-transcribe' });
    expect(event.audio_seconds).toBe(done.usage.seconds);
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

  test('forgets what is cleared, and refuses an empty commit with the id of its event', async () => {
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
      message: expect.stringContaining('No speech was heard'),
    });
    expect(session.closed).toBeNull();
  });

  test('hears speech that goes on while it is configured anew as one, to the end of the silence that was asked for last', async () => {
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
    // The silence is counted from where it is listened to.
    expect(stopped.audio_end_ms).toBe(2_000);
    await session.event(completed);
    await bench.event({ model: 'sandbox-transcribe', audio_seconds: 2, success: true });
    expect(session.events.filter(({ type }) => type === 'input_audio_buffer.speech_started')).toHaveLength(1);
  });

  test('hears speech from its beginning that had just begun when it was configured anew', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe'));
    for (const part of [quiet(500), tone(40)]) session.say(append(part));
    session.say(sessionUpdate(null, listening({ silence_duration_ms: 300 })));
    for (const part of [tone(500), quiet(400)]) session.say(append(part));
    expect((await session.event('input_audio_buffer.speech_started')).audio_start_ms).toBe(200);
  });

  test('hears what was appended before it listened for speech as the beginning of the first speech', async () => {
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

  test('tells moments of the session, whatever the format of its audio was before', async () => {
    await using session = await talk();
    session.say(sessionUpdate('sandbox-transcribe'));
    session.say(append(quiet(2_000)));
    session.say(sessionUpdate(null, { format: { type: 'audio/pcmu' } }));
    // Silence in mu-law, and a wave which is none.
    session.say(append(Buffer.alloc(8_000, 0xff)));
    session.say(append(Buffer.from(Array.from({ length: 8_000 }, (_, index) => (index % 16 < 8 ? 0x10 : 0x90)))));
    session.say(append(Buffer.alloc(8_000, 0xff)));
    expect((await session.event('input_audio_buffer.speech_started')).audio_start_ms).toBe(2_700);
    expect((await session.event('input_audio_buffer.speech_stopped')).audio_end_ms).toBe(4_500);
  });

  test('hears samples whole, wherever their bytes are cut', async () => {
    const deployment = { model: 'cut', base_url: bench.simulator.url, upstream_model: 'sim-transcribe' };
    await bench.admin('POST', '/models', { name: 'cut', operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', deployment);
    await using session = await talk();
    session.say(sessionUpdate('cut', manual));
    const audio = tone(500);
    for (let at = 0; at < audio.length; at += 333) session.say(append(audio.subarray(at, at + 333)));
    session.say({ type: 'input_audio_buffer.commit' });
    // What is left of a sample goes with the audio to which it belongs.
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

  test('refuses what is more than may wait for a commit whole, and keeps what came before', async () => {
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

  test('says when an item fails, and goes on', async () => {
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

  test('has what an upstream answers with success and an error transcribed by another, and is told the error of the last', async () => {
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
    () => ({ base_url: openai.url, upstream_model: 'relay-upstream', dialect: 'openai' }),
  ],
])('near its cap a session %s goes on for as long as there is room', async (_what, model, deployment) => {
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
    // What the gateway transcribes itself is waited for by what the client says meanwhile.
    if (model !== 'dear') await session.event(completed, ordinal);
  }
  utter();
  expect((await session.event('error')).error.code).toBe('spend_cap_exceeded');
  await waitFor(() => session.closed, { description: 'the close' });
  expect(session.closed!.code).toBe(4000);
  expect(session.events.filter(({ type }) => type === completed)).toHaveLength(2);
});

describe('a session that is relayed', () => {
  test('reaches the upstream with its own name of the model, and the client with the client’s', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', { ...manual, noise_reduction: { type: 'near_field' } }));
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    const done = await session.event(completed);
    expect(done).toMatchObject({ transcript: 'heard 48000 bytes', usage: openai.usage });
    const [connection] = openai.connections;
    expect(connection!.request.url).toBe('/v1/realtime?intent=transcription');
    expect(connection!.said[0].session.audio.input).toMatchObject({
      transcription: { model: 'relay-upstream' },
      noise_reduction: { type: 'near_field' },
      turn_detection: null,
    });
    expect((await session.event('session.updated')).session.audio.input.transcription.model).toBe('relay');
    expect(session.events.filter(({ type }) => type === 'session.created')).toHaveLength(1);
    await bench.event({ model: 'relay', input_tokens: 10, output_tokens: 5, audio_seconds: 1, success: true });
  });

  test.each([
    ['that its client commits', manual, { type: 'duration', seconds: 150 }, 150],
    ['in which its upstream hears speech', undefined, null, 150],
  ])('has an utterance %s of more than 120 s transcribed and charged whole', async (_how, input, usage, seconds) => {
    const { usage: usual } = openai;
    openai.usage = usage;
    try {
      await using session = await talk();
      session.say(sessionUpdate('relay', input));
      await session.event('session.updated');
      for (let piece = 0; piece < 3; piece += 1) session.say(append(tone((seconds * 1_000) / 3)));
      if (input === manual) {
        session.say({ type: 'input_audio_buffer.commit' });
      } else {
        await waitFor(() => openai.connections[0]!.said.length === 4, { description: 'the audio upstream' });
        const item = { event_id: 'event_upstream', item_id: 'item_long' };
        for (const event of [
          { type: 'input_audio_buffer.speech_started', audio_start_ms: 0 },
          { type: 'input_audio_buffer.speech_stopped', audio_end_ms: seconds * 1_000 },
          { type: 'input_audio_buffer.committed' },
          { type: completed, content_index: 0, transcript: 'a long speech' },
        ]) {
          openai.connections[0]!.socket.send(JSON.stringify({ ...item, ...event }));
        }
      }
      expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds });
      expect(session.events.filter(({ type }) => type === 'error')).toEqual([]);
      await bench.event({ model: 'relay', success: true, audio_seconds: seconds });
    } finally {
      openai.usage = usual;
    }
  });

  /** What a session tells of two seconds of audio whose upstream reports `said`. */
  async function usageOfTwoSeconds(said: object | null): Promise<unknown> {
    const { usage } = openai;
    openai.usage = said;
    try {
      await using session = await talk();
      session.say(sessionUpdate('relay', manual));
      session.say(append(tone(2_000)));
      session.say({ type: 'input_audio_buffer.commit' });
      return (await session.event(completed)).usage;
    } finally {
      openai.usage = usage;
    }
  }

  test.each([
    ['says none', null],
    [
      'says one of tokens that cannot be true',
      { type: 'tokens', total_tokens: 15, input_tokens: -10, output_tokens: 5 },
    ],
    ['says a length that cannot be true', { type: 'duration', seconds: -2 }],
    ['says a length beyond what it was sent', { type: 'duration', seconds: 99_999 }],
    [
      'says more tokens than there can be in what it was sent',
      { type: 'tokens', total_tokens: 100_005, input_tokens: 100_000, output_tokens: 5 },
    ],
  ])('gets a usage even when its upstream %s', async (_what, said) => {
    expect(await usageOfTwoSeconds(said)).toEqual({ type: 'duration', seconds: 2 });
    await bench.event({ model: 'relay', success: true, input_tokens: 0, audio_seconds: 2 });
  });

  test('costs no seconds when its upstream says that it heard nothing', async () => {
    const nothing = { type: 'duration', seconds: 0 };
    expect(await usageOfTwoSeconds(nothing)).toEqual(nothing);
    await bench.event({ model: 'relay', success: true, audio_seconds: 0 });
  });

  test('goes on with another model, which is admitted anew', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    await session.event('session.updated');
    session.say(sessionUpdate('relay/two:x'));
    await session.event('session.updated', 2);
    expect(openai.connections.map(({ said }) => said[0].session.audio.input.transcription.model)).toEqual([
      'relay-upstream',
      'relay/two:x-upstream',
    ]);
    await waitFor(() => openai.connections[0]!.closed, { description: 'the first connection to be closed' });
    session.say(sessionUpdate('no-such-model'));
    expect((await session.event('error')).error.code).toBe('model_not_found');
    expect(await session.close()).toEqual({ code: 4000, reason: 'invalid_request_error.model_not_found' });
  });

  test.each([
    ['is what its upstream says', 250, 1_250, 1],
    ['is what was appended where its upstream says what cannot be', 0, 1e18, 2],
    ['is what was appended where its upstream says more than that', 0, 99_999_000, 2],
    ['is what was appended where its upstream says nothing of it', undefined, undefined, 2],
  ])('counts a length of speech that %s', async (_what, audio_start_ms, audio_end_ms, audio_seconds) => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(2_000)));
    await session.event('session.updated');
    await waitFor(() => openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const item = { event_id: 'event_upstream', item_id: 'item_heard' };
    for (const event of [
      { type: 'input_audio_buffer.speech_started', audio_start_ms },
      { type: 'input_audio_buffer.speech_stopped', audio_end_ms },
      { type: 'input_audio_buffer.committed' },
      { type: completed, content_index: 0, transcript: 'heard' },
    ]) {
      openai.connections[0]!.socket.send(JSON.stringify({ ...item, ...event }));
    }
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: audio_seconds });
    await bench.event({ model: 'relay', success: true, audio_seconds });
  });

  /** Has the upstream of the last session say what it wants. */
  const tell = (...events: object[]) => {
    for (const event of events) openai.connections.at(-1)!.socket.send(JSON.stringify(event));
  };
  const usageEvents = async () => {
    const path = `/api/v1/usage/history?limit=100&api_key_id=${bench.key.id}`;
    return (await bench.gateway.call('GET', path, bench.session)).json.data;
  };
  const transcriptOf = (item_id: string) => ({
    type: completed,
    item_id,
    content_index: 0,
    transcript: 'never said',
    usage: { type: 'tokens', total_tokens: 100, input_tokens: 50, output_tokens: 50 },
  });

  test('is told and charged no transcript of what nobody committed', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say(append(tone(1_000)));
    await waitFor(() => openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const item_id = 'item_invented';
    tell({ type: 'input_audio_buffer.committed', item_id }, transcriptOf(item_id), transcriptOf('item_other'));
    tell({ type: 'conversation.item.input_audio_transcription.delta', item_id: 'item_third', delta: 'never' });
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed)).transcript).toBe('heard 48000 bytes');
    await bench.event({ model: 'relay', success: true, audio_seconds: 1 });
    expect(JSON.stringify(session.events)).not.toContain('never');
    session.socket.terminate();
    expect(await usageEvents()).toHaveLength(1);
  });

  test('is charged by what was appended, whatever its upstream tells of items that it hears by itself', async () => {
    logLines.length = 0;
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(1_000)));
    await waitFor(() => openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    for (let item = 0; item < 1_000; item += 1) {
      const item_id = `item_${item}`;
      tell(
        { type: 'input_audio_buffer.speech_started', item_id, audio_start_ms: 0 },
        { type: 'input_audio_buffer.speech_stopped', item_id, audio_end_ms: 60_000 },
        { type: 'input_audio_buffer.committed', item_id },
        transcriptOf(item_id),
      );
    }
    tell({ type: 'error', error: { message: 'the last word' } });
    await session.event('error');
    const metered = await waitFor(
      async () => {
        const events = await usageEvents();
        return events.length >= 10 && events;
      },
      { description: 'the usage' },
    );
    const sum = (name: string) =>
      metered.reduce((total: number, event: Record<string, number>) => total + event[name]!, 0);
    expect([metered.length, sum('audio_seconds'), sum('total_tokens')]).toEqual([10, 1, 100]);
    const lines = logLines.map((line) => JSON.parse(line));
    const disbelieved = lines.filter(({ msg }) => String(msg).includes('reported more than'));
    expect(disbelieved[0]).toMatchObject({
      model: 'relay',
      reported: { audioMs: 60_000 },
      charged: { audioMs: 1_000 },
    });
    expect(lines.filter(({ msg }) => String(msg).includes('nobody committed'))).toHaveLength(1);
  });

  test('meters a transcript that its upstream tells before it says that it was committed', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(2_000)));
    await waitFor(() => openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const { usage: _none, ...untold } = transcriptOf('item_early');
    tell(untold, { type: 'input_audio_buffer.committed', item_id: 'item_early' });
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: 2 });
    await session.event('input_audio_buffer.committed');
    await bench.event({ model: 'relay', success: true, audio_seconds: 2 });
    session.socket.terminate();
    expect(await usageEvents()).toHaveLength(1);
  });

  test('ends as one to be tried again when its upstream says what is no event', async () => {
    const endless = JSON.stringify({ type: 'input_audio_buffer.speech_started', item_id: 'x'.repeat(300) });
    for (const said of ['null', '[]', '"session.created"', endless]) {
      await using session = await talk();
      session.say(sessionUpdate('relay'));
      await session.event('session.updated');
      openai.connections.at(-1)!.socket.send(said);
      expect((await session.close()).code).toBe(1013);
      expect((await session.event('error')).error.code).toBe('upstream_error');
    }
  });

  test('ends as one to be tried again when its upstream leaves a thousand items without a transcript', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    // In silence of 110 s.
    session.say(append(quiet(110_000)));
    await waitFor(() => openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    for (let item = 0; item <= 1_000; item += 1) {
      tell({ type: 'input_audio_buffer.committed', item_id: `item_${item}` });
    }
    expect((await session.close()).code).toBe(1013);
    expect(session.events.filter(({ type }) => type === 'input_audio_buffer.committed')).toHaveLength(1_000);
  });

  test('hands on errors of the upstream, and stays open', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say({ type: 'input_audio_buffer.commit', event_id: 'mine' });
    expect((await session.event('error')).error).toMatchObject({ message: 'empty', event_id: 'mine' });
    expect(session.closed).toBeNull();
  });

  test('hands on neither key nor address of the upstream with any event, and each word that was said', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(1_000)));
    await waitFor(() => openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const { host } = new URL(openai.url);
    const item_id = 'item_heard';
    const of = 'conversation.item.input_audio_transcription';
    tell(
      { type: 'conversation.item.added', item: { id: item_id, served_by: [`${openai.url}/realtime`] } },
      { type: 'rate_limits.updated', note: `at ${host}` },
      { type: 'input_audio_buffer.committed', item_id, note: `at ${host}` },
      { type: `${of}.delta`, item_id, delta: `Call ${host}`, note: `at ${host}` },
      { type: completed, item_id, transcript: `Call ${host}`, note: `at ${host}` },
    );
    expect((await session.event(completed)).transcript).toBe(`Call ${host}`);
    expect((await session.event(`${of}.delta`)).delta).toBe(`Call ${host}`);
    expect((await session.event('conversation.item.added')).item.served_by).toEqual(['[redacted]/realtime']);
    const notes = session.events.flatMap(({ note }) => (note === undefined ? [] : [note]));
    expect(notes).toEqual(['at [redacted]', 'at [redacted]', 'at [redacted]', 'at [redacted]']);
  });

  test('hands on no address of the upstream with its errors', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    const error = { type: 'error', error: { message: `${openai.url}/realtime is busy` } };
    openai.connections.at(-1)!.socket.send(JSON.stringify(error));
    expect((await session.event('error')).error.message).toBe('[redacted]/realtime is busy');
  });

  test('ends as one to be tried again when its upstream leaves', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    openai.connections[0]!.socket.terminate();
    expect((await session.close()).code).toBe(1013);
    expect((await session.event('error')).error.code).toBe('upstream_error');
  });

  test('ends when its upstream says more in one event than one of a stream may have', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    const { socket } = openai.connections[0]!;
    socket.send(JSON.stringify({ type: 'session.created', padding: 'x'.repeat(4_000_000) }));
    socket.send(JSON.stringify({ type: 'error', error: { message: 'heard' } }));
    expect((await session.event('error')).error.message).toBe('heard');
    socket.send(JSON.stringify({ type: 'session.created', padding: 'x'.repeat(4 * 1024 * 1024) }));
    expect((await session.close()).code).toBe(1013);
    expect((await session.event('error', 2)).error.code).toBe('upstream_error');
  });

  test('closes its upstream when the client leaves', async () => {
    const session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    session.socket.terminate();
    await waitFor(() => openai.connections[0]!.closed, { description: 'the upstream to be left', timeoutMs: 1_000 });
  });

  test('drops the connection of an upstream that does not end the closing handshake', async () => {
    const { hostname: host, port } = new URL(openai.url);
    await using proxy = await startFaultProxy({ target: { host, port: Number(port) } });
    await bench.admin('POST', '/models', { name: 'stalling', operations: ['realtime_transcription'] });
    const base_url = `http://${proxy.host}:${proxy.port}/v1`;
    await bench.admin('POST', '/deployments', { model: 'stalling', base_url, dialect: 'openai' });
    const session = await talk();
    session.say(sessionUpdate('stalling'));
    await session.event('session.updated');
    await proxy.set({ kind: 'freeze', direction: 'to-client' });
    session.socket.terminate();
    // Left alone, the upstream itself would give up after 30 s.
    await waitFor(() => openai.connections[0]!.closed, { description: 'the connection to end', timeoutMs: 12_000 });
  });

  test('gives its place back when its client leaves while its upstream has stalled', async () => {
    await bench.admin('PUT', `/keys/${bench.key.id}/rate-limits`, { concurrent_requests: 1 });
    const session = await talk();
    session.say(sessionUpdate('relay', manual));
    await session.event('session.updated');
    openai.connections[0]!.socket.pause();
    // More than may wait for an upstream.
    session.say(append(Buffer.alloc(12 * 1024 * 1024)));
    session.socket.ping();
    await once(session.socket, 'pong');
    await waitFor(
      async () => {
        const other = await talk().catch((refusal: unknown) => refusal);
        if (other instanceof UpgradeRefused) return other.status === 429;
        (other as RealtimeTalk).socket.terminate();
        return false;
      },
      { description: 'a refusal of another session', intervalMs: 200 },
    );
    session.socket.terminate();
    await using other = await waitFor(() => talk(), { description: 'a place for another' });
    await other.event('session.created');
  });

  test.each([
    ['cleared', [{ type: 'input_audio_buffer.clear' }]],
    ['refused', [sessionUpdate(null, { noise_reduction: { type: 'refused' } })]],
    ['committed with nothing before it', [{ type: 'input_audio_buffer.commit' }]],
  ])('is metered by what was committed, whatever is %s around it', async (_what, said) => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    for (const seconds of [1, 2]) {
      for (const event of said) session.say(event);
      session.say(append(tone(seconds * 1_000)));
      session.say({ type: 'input_audio_buffer.commit' });
      for (const event of said) session.say(event);
    }
    for (const seconds of [1, 2]) {
      expect((await session.event(completed, seconds)).transcript).toBe(`heard ${seconds * 48_000} bytes`);
    }
    const events = await waitFor(
      async () => {
        const path = `/api/v1/usage/history?limit=10&api_key_id=${bench.key.id}`;
        const { data } = (await bench.gateway.call('GET', path, bench.session)).json;
        return data.length >= 2 && data;
      },
      { description: 'the usage of both' },
    );
    expect(events.map((event: { audio_seconds: number }) => event.audio_seconds).sort()).toEqual([1, 2]);
    for (const { error } of session.events.filter(({ type }) => type === 'error')) expect(error.event_id).toBeNull();
  });

  test('is told a transcript once, and metered once, when its upstream tells it again', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    const { item_id } = await session.event(completed);
    const again = { type: completed, item_id, content_index: 0, transcript: 'once more', usage: openai.usage };
    openai.connections[0]!.socket.send(JSON.stringify(again));
    session.say(append(tone(2_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed, 2)).item_id).not.toBe(item_id);
    await bench.event({ model: 'relay', audio_seconds: 2, success: true });
    const path = `/api/v1/usage/history?limit=10&api_key_id=${bench.key.id}`;
    expect((await bench.gateway.call('GET', path, bench.session)).json.data).toHaveLength(2);
  });

  test('cannot send what is no audio past the gateway, and is metered by the byte', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say({ type: 'input_audio_buffer.append', audio: 'AAAA*AAAA' });
    // As many bytes in base64 as take the most of padding.
    for (let time = 0; time < 480; time++) session.say(append(Buffer.alloc(100)));
    session.say({ type: 'input_audio_buffer.commit' });
    const done = await session.event(completed);
    expect((await session.event('error')).error).toMatchObject({ code: 'invalid_value', param: 'audio' });
    expect(done.transcript).toBe('heard 48000 bytes');
    await bench.event({ model: 'relay', audio_seconds: 1, success: true });
  });

  test('cannot smuggle an event past the gateway by naming its type twice', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    const audio = tone(200).toString('base64');
    session.socket.send(`{"type":"session.update","session":{},"type":"input_audio_buffer.append","audio":"${audio}"}`);
    session.say({ type: 'input_audio_buffer.commit' });
    await session.event(completed);
    expect(openai.connections[0]!.said.map(({ type }) => type)).toEqual([
      'session.update',
      'input_audio_buffer.append',
      'input_audio_buffer.commit',
    ]);
  });
});

describe('vLLM', () => {
  test('transcribes while it hears, at its own rate', async () => {
    await using session = await talk();
    session.say(sessionUpdate('vllm', manual));
    for (let time = 0; time < 3; time++) session.say(append(tone(500)));
    session.say({ type: 'input_audio_buffer.commit' });
    const done = await session.event(completed);
    // 1.5 s at 16 kHz, to a sample for each border.
    const bytes = Number(/heard (\d+) bytes/.exec(done.transcript)![1]);
    expect(Math.abs(bytes - 48_000)).toBeLessThanOrEqual(8);
    expect(done.usage).toEqual({ type: 'tokens', input_tokens: 20, output_tokens: 4, total_tokens: 24 });
    const deltas = session.events.filter(({ type }) => type.endsWith('.delta'));
    expect(deltas.length).toBeGreaterThanOrEqual(3);
    expect(vllm.connections[0]!.said[0]).toMatchObject({ type: 'session.update', model: 'vllm-upstream' });
    await bench.event({ model: 'vllm', input_tokens: 20, output_tokens: 4, success: true });
  });

  test('gets every utterance of its sessions, though its model has deployments of another dialect too', async () => {
    const model = 'of-two-dialects';
    await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
    await bench.admin('POST', '/deployments', { model, base_url: vllm.url, dialect: 'vllm' });
    await bench.admin('POST', '/deployments', { model, base_url: openai.url, dialect: 'openai' });
    await using session = await talk();
    session.say(sessionUpdate(model, manual));
    for (let time = 1; time <= 3; time++) {
      session.say(append(tone(500)));
      session.say({ type: 'input_audio_buffer.commit' });
      await session.event(completed, time);
    }
    expect(vllm.connections).toHaveLength(3);
    expect(openai.connections).toHaveLength(0);
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

describe('events that cannot be read', () => {
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
  ])('%s is answered with an error, and the session goes on', async (_what, text, code, param) => {
    await using session = await talk();
    session.socket.send(text);
    const { error } = await session.event('error');
    expect(error).toMatchObject({ type: 'invalid_request_error', code });
    if (param !== undefined) expect(error.param).toBe(param);
    session.say(sessionUpdate(null));
    await session.event('session.updated');
  });
});
