import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { append, openTalk, sessionUpdate, tone, UpgradeRefused } from '../support/realtime-client.ts';
import { type RealtimeBench, startRealtimeBench } from '../support/realtime-upstream.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: RealtimeBench;

const logLines: string[] = [];
beforeAll(async () => {
  bench = await startRealtimeBench({ logLines });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const talk = () => openTalk(bench.gateway.url, { key: bench.key.key });
const manual = { turn_detection: null };
const completed = 'conversation.item.input_audio_transcription.completed';

const transcriptOf = (item_id: string) => ({
  type: completed,
  item_id,
  content_index: 0,
  transcript: 'never said',
  usage: { type: 'tokens', total_tokens: 100, input_tokens: 50, output_tokens: 50 },
});

/** What the key's sessions were metered as, once there are this many utterances or more. */
const usageEvents = (count: number) =>
  waitFor(
    async () => {
      const path = `/api/v1/usage/history?limit=100&api_key_id=${bench.key.id}`;
      const { data } = (await bench.gateway.call('GET', path, bench.session)).json;
      return data.length >= count && data;
    },
    { description: `the usage of ${count} utterances` },
  );

/** The usage that a session reports for two seconds of audio whose upstream reports `said`. */
async function usageOfTwoSeconds(said: object | null): Promise<unknown> {
  bench.openai.usage = said;
  await using session = await talk();
  session.say(sessionUpdate('relay', manual));
  session.say(append(tone(2_000)));
  session.say({ type: 'input_audio_buffer.commit' });
  return (await session.event(completed)).usage;
}

describe('a relayed session', () => {
  test.each([
    ['that its client commits', manual, { type: 'duration', seconds: 150 }, 150],
    ['in which its upstream hears speech', undefined, null, 150],
  ])('has an utterance %s of more than 120 s transcribed and charged in full', async (_how, input, usage, seconds) => {
    bench.openai.usage = usage;
    await using session = await talk();
    session.say(sessionUpdate('relay', input));
    await session.event('session.updated');
    for (let piece = 0; piece < 3; piece += 1) session.say(append(tone((seconds * 1_000) / 3)));
    if (input === manual) {
      session.say({ type: 'input_audio_buffer.commit' });
    } else {
      await waitFor(() => bench.openai.connections[0]!.said.length === 4, { description: 'the audio upstream' });
      const item_id = 'item_long';
      bench.openai.tell(
        { type: 'input_audio_buffer.speech_started', item_id, audio_start_ms: 0 },
        { type: 'input_audio_buffer.speech_stopped', item_id, audio_end_ms: seconds * 1_000 },
        { type: 'input_audio_buffer.committed', item_id },
        { type: completed, item_id, content_index: 0, transcript: 'a long speech' },
      );
    }
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds });
    expect(session.events.filter(({ type }) => type === 'error')).toEqual([]);
    await bench.event({ model: 'relay', success: true, audio_seconds: seconds });
  });

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
  ])('reports usage even when its upstream %s', async (_what, said) => {
    expect(await usageOfTwoSeconds(said)).toEqual({ type: 'duration', seconds: 2 });
    const output_tokens = 5; // heard 96000 bytes
    await bench.event({ model: 'relay', success: true, input_tokens: 0, output_tokens, audio_seconds: 2 });
  });

  test('costs no seconds when its upstream says that it heard nothing', async () => {
    const nothing = { type: 'duration', seconds: 0 };
    expect(await usageOfTwoSeconds(nothing)).toEqual(nothing);
    await bench.event({ model: 'relay', success: true, audio_seconds: 0 });
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
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const item_id = 'item_heard';
    bench.openai.tell(
      { type: 'input_audio_buffer.speech_started', item_id, audio_start_ms },
      { type: 'input_audio_buffer.speech_stopped', item_id, audio_end_ms },
      { type: 'input_audio_buffer.committed', item_id },
      { type: completed, item_id, content_index: 0, transcript: 'heard' },
    );
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: audio_seconds });
    await bench.event({ model: 'relay', success: true, audio_seconds });
  });

  test.each([
    [{ type: 'invalid_request_error', code: 'noise', message: 'Too noisy' }, 400, 'noise'],
    [{ type: 'rate_limit_error', message: 'Too fast' }, 429, 'rate_limit_exceeded'],
    [{ type: 'transcription_error', code: 'unintelligible', message: 'What?' }, 502, 'upstream_error'],
    [undefined, 502, 'upstream_error'],
  ])(
    'is metered for an item that its upstream failed with %j as a call would be',
    async (error, status, error_code) => {
      await using session = await talk();
      session.say(sessionUpdate('relay'));
      session.say(append(tone(1_000)));
      await waitFor(() => bench.openai.connections[0]?.said.length === 2, { description: 'the audio upstream' });
      const item_id = 'item_failed';
      bench.openai.tell({ type: 'input_audio_buffer.committed', item_id });
      bench.openai.tell({
        type: 'conversation.item.input_audio_transcription.failed',
        item_id,
        content_index: 0,
        error,
      });
      await bench.event({ model: 'relay', success: false, status, error_code });
    },
  );

  test('is neither sent nor charged for a transcript that nobody committed', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say(append(tone(1_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const item_id = 'item_invented';
    bench.openai.tell(
      { type: 'input_audio_buffer.committed', item_id },
      transcriptOf(item_id),
      transcriptOf('item_other'),
    );
    bench.openai.tell({
      type: 'conversation.item.input_audio_transcription.delta',
      item_id: 'item_third',
      delta: 'never',
    });
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed)).transcript).toBe('heard 48000 bytes');
    await bench.event({ model: 'relay', success: true, audio_seconds: 1 });
    expect(JSON.stringify(session.events)).not.toContain('never');
    session.socket.terminate();
    expect(await usageEvents(1)).toHaveLength(1);
  });

  test('is charged by the audio appended, whatever its upstream says about items it detected itself', async () => {
    logLines.length = 0;
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(1_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    for (let item = 0; item < 1_000; item += 1) {
      const item_id = `item_${item}`;
      bench.openai.tell(
        { type: 'input_audio_buffer.speech_started', item_id, audio_start_ms: 0 },
        { type: 'input_audio_buffer.speech_stopped', item_id, audio_end_ms: 60_000 },
        { type: 'input_audio_buffer.committed', item_id },
        transcriptOf(item_id),
      );
    }
    bench.openai.tell({ type: 'error', error: { message: 'the last word' } });
    await session.event('error');
    const metered = await usageEvents(10);
    const sum = (name: string) =>
      metered.reduce((total: number, event: Record<string, number>) => total + event[name]!, 0);
    expect([metered.length, sum('audio_seconds'), sum('total_tokens')]).toEqual([10, 1, 100]);
    const lines = logLines.map((line) => JSON.parse(line));
    const disbelieved = lines.filter(({ msg }) => String(msg).includes('reported more usage than'));
    expect(disbelieved[0]).toMatchObject({
      model: 'relay',
      reported: { audioMs: 60_000 },
      charged: { audioMs: 1_000 },
    });
    expect(lines.filter(({ msg }) => String(msg).includes('nobody committed'))).toHaveLength(1);
  });

  test('meters a transcript that its upstream sends before confirming the commit', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(2_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const { usage: _none, ...untold } = transcriptOf('item_early');
    bench.openai.tell(untold, { type: 'input_audio_buffer.committed', item_id: 'item_early' });
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: 2 });
    await session.event('input_audio_buffer.committed');
    await bench.event({ model: 'relay', success: true, audio_seconds: 2 });
    session.socket.terminate();
    expect(await usageEvents(1)).toHaveLength(1);
  });

  test.each([
    ['since its upstream heard it begin', [{ type: 'input_audio_buffer.speech_started', audio_start_ms: 1_000 }], 2],
    ['since the last commit, if its upstream does not say when it began', [], 3],
  ])(
    'whose client leaves with the first words of an utterance is charged for the audio %s',
    async (_how, before, audio_seconds) => {
      await using session = await talk();
      session.say(sessionUpdate('relay'));
      session.say(append(tone(3_000)));
      await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
      const delta = 'conversation.item.input_audio_transcription.delta';
      for (const event of [...before, { type: delta, content_index: 0, delta: 'heard' }])
        bench.openai.tell({ item_id: 'item_live', ...event });
      await session.event(delta);
      session.socket.terminate();
      await bench.event({ model: 'relay', success: false, output_tokens: 1, audio_seconds });
    },
  );

  test('whose client leaves with the first words of an utterance is charged for them when they come by speaker as well', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(3_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const segment = 'conversation.item.input_audio_transcription.segment';
    const said = {
      item_id: 'item_live',
      content_index: 0,
      id: 'seg_1',
      speaker: 'A',
      start: 0,
      end: 3,
      text: 'Good day to you',
    };
    bench.openai.tell({ type: 'input_audio_buffer.speech_started', item_id: 'item_live', audio_start_ms: 1_000 });
    bench.openai.tell({ type: segment, ...said });
    expect(await session.event(segment)).toMatchObject(said);
    session.socket.terminate();
    await bench.event({ model: 'relay', success: false, output_tokens: 4, audio_seconds: 2 });
  });

  test('counts its tokens towards the limit of its key', async () => {
    await bench.admin('PUT', `/keys/${bench.key.id}/rate-limits`, { tokens_per_minute: 10 });
    const refused = await waitFor(
      async () => {
        const session = await talk().catch((thrown) => thrown);
        if (session instanceof UpgradeRefused) return session;
        session.say(sessionUpdate('relay', manual));
        session.say(append(tone(1_000)));
        session.say({ type: 'input_audio_buffer.commit' });
        await session.event(completed);
        // What another model used counts too.
        session.say(sessionUpdate('relay/two:x', manual));
        await session.event('session.updated', 2);
        session.socket.terminate();
        return false;
      },
      { description: 'a refusal' },
    );
    expect(refused).toMatchObject({ status: 429, body: { error: { type: 'tokens' } } });
  });

  test('is charged by the format that its upstream hears, not by one that the upstream refused', async () => {
    bench.openai.usage = null;
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    for (let update = 0; update < 2; update += 1) {
      session.say(sessionUpdate(null, { format: { type: 'audio/pcm', rate: 48_000 } }));
      session.say(append(tone(2_000)));
      session.say({ type: 'input_audio_buffer.commit' });
    }
    await waitFor(() => session.events.filter(({ type }) => type === completed).length === 2, {
      description: 'both transcripts',
    });
    for (const event of session.events.filter(({ type }) => type === completed))
      expect(event.usage).toEqual({ type: 'duration', seconds: 2 });
  });

  test('is charged by the format of an update, though a commit of the same id was refused just before', async () => {
    bench.openai.usage = null;
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    const event_id = 'event_gateway_4';
    session.say(append(tone(50)));
    session.say({ type: 'input_audio_buffer.commit', event_id });
    session.say({ ...sessionUpdate(null, { format: { type: 'audio/pcmu' } }), event_id });
    session.say(append(Buffer.alloc(16_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: 2.05 });
  });

  test('is charged for the audio of a refused commit with the next one, and not for cleared audio', async () => {
    bench.openai.usage = null;
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say(append(tone(50)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event('error')).error).toMatchObject({ message: 'too short', event_id: null });
    for (const ms of [1_950, 50, 1_950]) {
      session.say(append(tone(ms)));
      session.say({ type: 'input_audio_buffer.commit' });
    }
    session.say(append(tone(500)));
    session.say({ type: 'input_audio_buffer.clear' });
    session.say(append(tone(2_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    await waitFor(() => session.events.filter(({ type }) => type === completed).length === 3, {
      description: 'all transcripts',
    });
    for (const event of session.events.filter(({ type }) => type === completed))
      expect(event.usage).toEqual({ type: 'duration', seconds: 2 });
  });

  test.each([
    [1, ' word', 1],
    [1, 'Thank you everybody for listening', 5],
    [500, ' word', 450],
  ])(
    'is charged for %d times %j delivered before its client left, at most what can be said in that time: %d',
    async (words, said, output_tokens) => {
      const session = await talk();
      session.say(sessionUpdate('relay'));
      session.say(append(tone(1_000)));
      await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
      const delta = 'conversation.item.input_audio_transcription.delta';
      const item_id = 'item_left';
      bench.openai.tell({ type: 'input_audio_buffer.committed', item_id });
      for (let word = 0; word < words; word += 1)
        bench.openai.tell({ type: delta, item_id, content_index: 0, delta: said });
      await session.event(delta, words);
      session.socket.terminate();
      const left = { success: false, status: 499, error_code: 'client_closed_request' };
      await bench.event({ ...left, model: 'relay', output_tokens, audio_seconds: 1 });
    },
  );

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
    const events = await usageEvents(2);
    expect(events.map((event: { audio_seconds: number }) => event.audio_seconds).sort()).toEqual([1, 2]);
    for (const { error } of session.events.filter(({ type }) => type === 'error')) expect(error.event_id).toBeNull();
  });

  test('sends a transcript once and meters it once, even if its upstream repeats it', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    const { item_id } = await session.event(completed);
    const again = { type: completed, item_id, content_index: 0, transcript: 'once more', usage: bench.openai.usage };
    bench.openai.tell(again);
    session.say(append(tone(2_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed, 2)).item_id).not.toBe(item_id);
    await bench.event({ model: 'relay', audio_seconds: 2, success: true });
    expect(await usageEvents(2)).toHaveLength(2);
  });

  test('cannot send anything but audio past the gateway, and is metered by the byte', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say({ type: 'input_audio_buffer.append', audio: 'AAAA*AAAA' });
    // Pieces whose length needs the most padding in base64.
    for (let time = 0; time < 480; time++) session.say(append(Buffer.alloc(100)));
    session.say({ type: 'input_audio_buffer.commit' });
    const done = await session.event(completed);
    expect((await session.event('error')).error).toMatchObject({ code: 'invalid_value', param: 'audio' });
    expect(done.transcript).toBe('heard 48000 bytes');
    await bench.event({ model: 'relay', audio_seconds: 1, success: true });
  });
});
