import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { append, openTalk, quiet, sessionUpdate, tone } from '../support/realtime-client.ts';
import { type RealtimeBench, startRealtimeBench } from '../support/realtime-upstream.ts';

let bench: RealtimeBench;

beforeAll(async () => {
  bench = await startRealtimeBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const talk = () => openTalk(bench.gateway.url, { key: bench.key.key });
const manual = { turn_detection: null };
const completed = 'conversation.item.input_audio_transcription.completed';

describe.each([
  ['that the gateway cuts into utterances', 'sandbox-transcribe', 'relay'],
  ['that is relayed', 'relay', 'relay/two:x'],
  ['of vLLM', 'vllm', 'sandbox-transcribe'],
])('a session %s', (_what, model, other) => {
  const cannotChange = { code: 'input_audio_buffer_not_empty', event_id: 'mine', type: 'invalid_request_error' };

  test('keeps its audio and its model, and says so, when another model is named before that audio is committed', async () => {
    await using session = await talk();
    session.say(sessionUpdate(model, manual));
    session.say(append(tone(1_000)));
    session.say({ ...sessionUpdate(other), event_id: 'mine' });
    expect((await session.event('error')).error).toMatchObject(cannotChange);
    session.say({ ...sessionUpdate(null, { format: { type: 'audio/pcmu' } }), event_id: 'mine' });
    expect((await session.event('error', 2)).error).toMatchObject(cannotChange);
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    await session.event(completed);
    await bench.event({ success: true, model, audio_seconds: 2 });
    const metered = await bench.gateway.call('GET', `/api/v1/usage/history?api_key_id=${bench.key.id}`, bench.session);
    expect(metered.json.data).toHaveLength(1);
    session.say(sessionUpdate(other));
    const { audio } = (await session.event('session.updated', 2)).session;
    expect(audio.input).toMatchObject({ transcription: { model: other }, format: { type: 'audio/pcm' } });
  });

  test('gets the transcript of what was committed even if another model is named right after', async () => {
    await using session = await talk();
    session.say(sessionUpdate(model, manual));
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    session.say(sessionUpdate(other));
    await session.event('session.updated', 2);
    const types = session.events.map(({ type }) => type);
    expect(types.indexOf(completed)).toBeGreaterThan(0);
    expect(types.indexOf(completed)).toBeLessThan(types.lastIndexOf('session.updated'));
    await bench.event({ success: true, model, audio_seconds: 1 });
  });

  test('changes its model after audio was cleared', async () => {
    await using session = await talk();
    session.say(sessionUpdate(model, manual));
    await session.event('session.updated');
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.clear' });
    session.say(sessionUpdate(other));
    await session.event('session.updated', 2);
    expect(session.events.some(({ type }) => type === 'error')).toBe(false);
  });
});

test('a session changes its model between two utterances, not in the middle of one', async () => {
  await using session = await talk();
  session.say(sessionUpdate('sandbox-transcribe'));
  for (const part of [quiet(600), tone(1_000)]) session.say(append(part));
  session.say(sessionUpdate('relay'));
  expect((await session.event('error')).error.code).toBe('input_audio_buffer_not_empty');
  session.say(append(quiet(1_000)));
  session.say(sessionUpdate('relay'));
  await session.event('session.updated', 2);
  expect(session.events.filter(({ type }) => type === completed)).toHaveLength(1);
});

test('a relayed session changes its model while its upstream hears no speech, not while it does', async () => {
  await using session = await talk();
  session.say(sessionUpdate('relay'));
  session.say(append(tone(1_000)));
  await session.event('session.updated');
  const said = (event: object) => bench.openai.tell({ item_id: 'item_1', ...event });
  said({ type: 'input_audio_buffer.speech_started', audio_start_ms: 0 });
  await session.event('input_audio_buffer.speech_started');
  session.say(sessionUpdate('relay/two:x'));
  expect((await session.event('error')).error.code).toBe('input_audio_buffer_not_empty');
  said({ type: 'input_audio_buffer.speech_stopped', audio_end_ms: 700 });
  await session.event('input_audio_buffer.speech_stopped');
  session.say(sessionUpdate('relay/two:x'));
  said({ type: 'input_audio_buffer.committed' });
  said({ type: completed, content_index: 0, transcript: 'heard' });
  await session.event('session.updated', 2);
  expect(session.events.filter(({ type }) => type === completed)).toHaveLength(1);
  await bench.event({ success: true, model: 'relay', audio_seconds: 0.7 });
});

test('a relayed session changes its model once the speech that its upstream hears was cleared', async () => {
  await using session = await talk();
  session.say(sessionUpdate('relay'));
  session.say(append(tone(1_000)));
  await session.event('session.updated');
  bench.openai.tell({ type: 'input_audio_buffer.speech_started', item_id: 'item_1', audio_start_ms: 0 });
  await session.event('input_audio_buffer.speech_started');
  session.say({ type: 'input_audio_buffer.clear' });
  session.say(sessionUpdate('relay/two:x'));
  await session.event('session.updated', 2);
  expect(session.events.filter(({ type }) => type === 'error')).toEqual([]);
});
