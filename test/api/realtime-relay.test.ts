import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startFaultProxy } from '../support/fault-proxy.ts';
import {
  append,
  openTalk,
  quiet,
  type RealtimeOptions,
  type RealtimeTalk,
  sessionUpdate,
  tone,
  UpgradeRefused,
} from '../support/realtime-client.ts';
import { type RealtimeBench, startRealtimeBench } from '../support/realtime-upstream.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: RealtimeBench;

const logLines: string[] = [];
beforeAll(async () => {
  bench = await startRealtimeBench({ logLines });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const talk = (options: RealtimeOptions = {}) => openTalk(bench.gateway.url, { key: bench.key.key, ...options });
const manual = { turn_detection: null };
const completed = 'conversation.item.input_audio_transcription.completed';

describe('a relayed session', () => {
  test('uses the upstream’s name for the model with the upstream, and the client’s with the client', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', { ...manual, noise_reduction: { type: 'near_field' } }));
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    const done = await session.event(completed);
    expect(done).toMatchObject({ transcript: 'heard 48000 bytes', usage: bench.openai.usage });
    const [connection] = bench.openai.connections;
    expect(connection!.request.url).toBe('/v1/realtime?intent=transcription');
    expect(connection!.said[0].session.audio.input).toMatchObject({
      transcription: { model: 'relay-upstream' },
      noise_reduction: { type: 'near_field' },
      turn_detection: null,
    });
    expect((await session.event('session.updated')).session.audio.input.transcription.model).toBe('relay');
    expect(session.events.filter(({ type }) => type === 'session.created')).toHaveLength(1);
    await bench.event({
      model: 'relay',
      input_tokens: 10,
      output_tokens: 5,
      audio_seconds: 1,
      success: true,
      status: 200,
    });
  });

  test.each([
    ['that its client commits', manual, { type: 'duration', seconds: 150 }, 150],
    ['in which its upstream hears speech', undefined, null, 150],
  ])('has an utterance %s of more than 120 s transcribed and charged in full', async (_how, input, usage, seconds) => {
    const { usage: usual } = bench.openai;
    bench.openai.usage = usage;
    try {
      await using session = await talk();
      session.say(sessionUpdate('relay', input));
      await session.event('session.updated');
      for (let piece = 0; piece < 3; piece += 1) session.say(append(tone((seconds * 1_000) / 3)));
      if (input === manual) {
        session.say({ type: 'input_audio_buffer.commit' });
      } else {
        await waitFor(() => bench.openai.connections[0]!.said.length === 4, { description: 'the audio upstream' });
        const item = { event_id: 'event_upstream', item_id: 'item_long' };
        for (const event of [
          { type: 'input_audio_buffer.speech_started', audio_start_ms: 0 },
          { type: 'input_audio_buffer.speech_stopped', audio_end_ms: seconds * 1_000 },
          { type: 'input_audio_buffer.committed' },
          { type: completed, content_index: 0, transcript: 'a long speech' },
        ]) {
          bench.openai.connections[0]!.socket.send(JSON.stringify({ ...item, ...event }));
        }
      }
      expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds });
      expect(session.events.filter(({ type }) => type === 'error')).toEqual([]);
      await bench.event({ model: 'relay', success: true, audio_seconds: seconds });
    } finally {
      bench.openai.usage = usual;
    }
  });

  /** The usage that a session reports for two seconds of audio whose upstream reports `said`. */
  async function usageOfTwoSeconds(said: object | null): Promise<unknown> {
    const { usage } = bench.openai;
    bench.openai.usage = said;
    try {
      await using session = await talk();
      session.say(sessionUpdate('relay', manual));
      session.say(append(tone(2_000)));
      session.say({ type: 'input_audio_buffer.commit' });
      return (await session.event(completed)).usage;
    } finally {
      bench.openai.usage = usage;
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
  ])('reports usage even when its upstream %s', async (_what, said) => {
    expect(await usageOfTwoSeconds(said)).toEqual({ type: 'duration', seconds: 2 });
    await bench.event({ model: 'relay', success: true, input_tokens: 0, audio_seconds: 2 });
  });

  test('costs no seconds when its upstream says that it heard nothing', async () => {
    const nothing = { type: 'duration', seconds: 0 };
    expect(await usageOfTwoSeconds(nothing)).toEqual(nothing);
    await bench.event({ model: 'relay', success: true, audio_seconds: 0 });
  });

  test('continues with another model, which is admitted anew', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    await session.event('session.updated');
    session.say(sessionUpdate('relay/two:x'));
    await session.event('session.updated', 2);
    expect(bench.openai.connections.map(({ said }) => said[0].session.audio.input.transcription.model)).toEqual([
      'relay-upstream',
      'relay/two:x-upstream',
    ]);
    await waitFor(() => bench.openai.connections[0]!.closed, { description: 'the first connection to be closed' });
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
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const item = { event_id: 'event_upstream', item_id: 'item_heard' };
    for (const event of [
      { type: 'input_audio_buffer.speech_started', audio_start_ms },
      { type: 'input_audio_buffer.speech_stopped', audio_end_ms },
      { type: 'input_audio_buffer.committed' },
      { type: completed, content_index: 0, transcript: 'heard' },
    ]) {
      bench.openai.connections[0]!.socket.send(JSON.stringify({ ...item, ...event }));
    }
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: audio_seconds });
    await bench.event({ model: 'relay', success: true, audio_seconds });
  });

  /** Has the upstream of the last session send these events. */
  const tell = (...events: object[]) => {
    for (const event of events) bench.openai.connections.at(-1)!.socket.send(JSON.stringify(event));
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
      tell({ type: 'input_audio_buffer.committed', item_id });
      tell({ type: 'conversation.item.input_audio_transcription.failed', item_id, content_index: 0, error });
      await bench.event({ model: 'relay', success: false, status, error_code });
    },
  );

  test('is neither sent nor charged for a transcript that nobody committed', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say(append(tone(1_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
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

  test('is charged by the audio appended, whatever its upstream says about items it detected itself', async () => {
    logLines.length = 0;
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(1_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
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
    tell(untold, { type: 'input_audio_buffer.committed', item_id: 'item_early' });
    expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: 2 });
    await session.event('input_audio_buffer.committed');
    await bench.event({ model: 'relay', success: true, audio_seconds: 2 });
    session.socket.terminate();
    expect(await usageEvents()).toHaveLength(1);
  });

  test('ends with a retryable error when its upstream sends something that is not an event', async () => {
    const endless = JSON.stringify({ type: 'input_audio_buffer.speech_started', item_id: 'x'.repeat(300) });
    for (const said of ['null', '[]', '"session.created"', endless]) {
      await using session = await talk();
      session.say(sessionUpdate('relay'));
      await session.event('session.updated');
      bench.openai.connections.at(-1)!.socket.send(said);
      expect((await session.close()).code).toBe(1013);
      expect((await session.event('error')).error.code).toBe('upstream_error');
    }
  });

  test('ends with a retryable error when its upstream leaves a thousand items without a transcript', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    // 110 s of silence.
    session.say(append(quiet(110_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    for (let item = 0; item <= 1_000; item += 1) {
      tell({ type: 'input_audio_buffer.committed', item_id: `item_${item}` });
    }
    expect((await session.close()).code).toBe(1013);
    expect(session.events.filter(({ type }) => type === 'input_audio_buffer.committed')).toHaveLength(1_000);
  });

  test('holds back its client while its upstream owes 500 transcripts', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    const { said, socket } = bench.openai.connections[0]!;
    session.say(append(quiet(60_000)));
    await waitFor(() => said.length === 2, { description: 'the audio upstream' });
    for (let item = 0; item < 500; item += 1) tell({ type: 'input_audio_buffer.committed', item_id: `item_${item}` });
    await session.event('input_audio_buffer.committed', 500);
    session.say(append(tone(10)));
    session.say(append(tone(10)));
    await waitFor(() => said.length === 3, { description: 'the first of two appends' });
    // There and back once more, so that the second would have come.
    const pong = once(socket, 'pong');
    socket.ping();
    await pong;
    expect(said).toHaveLength(3);
    tell(transcriptOf('item_0'));
    await waitFor(() => said.length === 4, { description: 'the second append' });
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

  test('passes on errors of the upstream, and stays open', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say({ type: 'input_audio_buffer.commit', event_id: 'mine' });
    expect((await session.event('error')).error).toMatchObject({ message: 'too short', event_id: 'mine' });
    expect(session.closed).toBeNull();
  });

  test('is charged for the audio of a refused commit with the next one, and not for cleared audio', async () => {
    const { usage } = bench.openai;
    bench.openai.usage = null;
    try {
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
    } finally {
      bench.openai.usage = usage;
    }
  });

  test('passes on every spoken word, but never the key or address of the upstream', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(1_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const { host } = new URL(bench.openai.url);
    const item_id = 'item_heard';
    const of = 'conversation.item.input_audio_transcription';
    tell(
      { type: 'conversation.item.added', item: { id: item_id, served_by: [`${bench.openai.url}/realtime`] } },
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

  test('passes on errors without the address of the upstream', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    const error = { type: 'error', error: { message: `${bench.openai.url}/realtime is busy` } };
    bench.openai.connections.at(-1)!.socket.send(JSON.stringify(error));
    expect((await session.event('error')).error.message).toBe('[redacted]/realtime is busy');
  });

  test('ends with a retryable error when its upstream leaves', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    bench.openai.connections[0]!.socket.terminate();
    expect((await session.close()).code).toBe(1013);
    expect((await session.event('error')).error.code).toBe('upstream_error');
  });

  test('ends when its upstream sends an event longer than allowed in a stream', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    const { socket } = bench.openai.connections[0]!;
    socket.send(JSON.stringify({ type: 'session.created', padding: 'x'.repeat(4_000_000) }));
    socket.send(JSON.stringify({ type: 'error', error: { message: 'heard' } }));
    expect((await session.event('error')).error.message).toBe('heard');
    socket.send(JSON.stringify({ type: 'session.created', padding: 'x'.repeat(4 * 1024 * 1024) }));
    expect((await session.close()).code).toBe(1013);
    expect((await session.event('error', 2)).error.code).toBe('upstream_error');
  });

  test.each([
    [1, 1],
    [500, 450],
  ])(
    'is charged for %d words delivered before its client left, at most what can be said in that time: %d',
    async (words, output_tokens) => {
      const session = await talk();
      session.say(sessionUpdate('relay'));
      session.say(append(tone(1_000)));
      await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
      const delta = 'conversation.item.input_audio_transcription.delta';
      const item_id = 'item_left';
      tell({ type: 'input_audio_buffer.committed', item_id });
      for (let word = 0; word < words; word += 1) tell({ type: delta, item_id, content_index: 0, delta: 'word ' });
      await session.event(delta, words);
      session.socket.terminate();
      const left = { success: false, status: 499, error_code: 'client_closed_request' };
      await bench.event({ ...left, model: 'relay', output_tokens, audio_seconds: 1 });
    },
  );

  test('closes its upstream when the client leaves', async () => {
    const session = await talk();
    session.say(sessionUpdate('relay'));
    await session.event('session.updated');
    session.socket.terminate();
    await waitFor(() => bench.openai.connections[0]!.closed, {
      description: 'the upstream to be left',
      timeoutMs: 1_000,
    });
  });

  test('drops the connection if its upstream does not complete the closing handshake', async () => {
    const { hostname: host, port } = new URL(bench.openai.url);
    await using proxy = await startFaultProxy({ target: { host, port: Number(port) } });
    await bench.admin('POST', '/models', { name: 'stalling', operations: ['realtime_transcription'] });
    const base_url = `http://${proxy.host}:${proxy.port}/v1`;
    await bench.admin('POST', '/deployments', { model: 'stalling', base_url, dialect: 'openai' });
    const session = await talk();
    session.say(sessionUpdate('stalling'));
    await session.event('session.updated');
    await proxy.set({ kind: 'freeze', direction: 'to-client' });
    session.socket.terminate();
    // On its own, the upstream would only give up after 30 s.
    await waitFor(() => bench.openai.connections[0]!.closed, {
      description: 'the connection to end',
      timeoutMs: 12_000,
    });
  });

  test('frees its place when its client leaves while its upstream has stalled', async () => {
    await bench.admin('PUT', `/keys/${bench.key.id}/rate-limits`, { concurrent_requests: 1 });
    const session = await talk();
    session.say(sessionUpdate('relay', manual));
    await session.event('session.updated');
    bench.openai.connections[0]!.socket.pause();
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

  test('sends a transcript once and meters it once, even if its upstream repeats it', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    const { item_id } = await session.event(completed);
    const again = { type: completed, item_id, content_index: 0, transcript: 'once more', usage: bench.openai.usage };
    bench.openai.connections[0]!.socket.send(JSON.stringify(again));
    session.say(append(tone(2_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect((await session.event(completed, 2)).item_id).not.toBe(item_id);
    await bench.event({ model: 'relay', audio_seconds: 2, success: true });
    const path = `/api/v1/usage/history?limit=10&api_key_id=${bench.key.id}`;
    expect((await bench.gateway.call('GET', path, bench.session)).json.data).toHaveLength(2);
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

  test('cannot smuggle an event past the gateway by naming its type twice', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    const audio = tone(200).toString('base64');
    session.socket.send(`{"type":"session.update","session":{},"type":"input_audio_buffer.append","audio":"${audio}"}`);
    session.say({ type: 'input_audio_buffer.commit' });
    await session.event(completed);
    expect(bench.openai.connections[0]!.said.map(({ type }) => type)).toEqual([
      'session.update',
      'input_audio_buffer.append',
      'input_audio_buffer.commit',
    ]);
  });
});
