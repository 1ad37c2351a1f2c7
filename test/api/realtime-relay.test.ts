import { once } from 'node:events';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startFaultProxy } from '../support/fault-proxy.ts';
import {
  append,
  openTalk,
  quiet,
  type RealtimeTalk,
  sessionUpdate,
  tone,
  UpgradeRefused,
} from '../support/realtime-client.ts';
import { type RealtimeBench, startRealtimeBench } from '../support/realtime-upstream.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: RealtimeBench;

beforeAll(async () => {
  bench = await startRealtimeBench();
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const talk = () => openTalk(bench.gateway.url, { key: bench.key.key });
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

  test('has the model and the format of its start at its upstream too, though its client never updates it', async () => {
    bench.openai.usage = null;
    const input = { format: { type: 'audio/pcmu' }, transcription: { model: 'relay', prompt: 'Names.' }, ...manual };
    const path = '/v1/realtime/client_secrets';
    const body = { session: { type: 'transcription', audio: { input } } };
    const secret = await bench.gateway.call('POST', path, bench.key.key, body);
    for (const [query, key, format, bytes] of [
      ['?model=relay', bench.key.key, { type: 'audio/pcm', rate: 24_000 }, 96_000],
      ['?intent=transcription', secret.json.value, { type: 'audio/pcmu' }, 16_000],
    ] as const) {
      await using session = await openTalk(bench.gateway.url, { key, query });
      session.say(append(Buffer.alloc(bytes)));
      session.say({ type: 'input_audio_buffer.commit' });
      expect((await session.event(completed)).usage).toEqual({ type: 'duration', seconds: 2 });
      expect(session.events.map(({ type }) => type)).not.toContain('session.updated');
      const [first] = bench.openai.connections.at(-1)!.said;
      expect(first).toMatchObject({
        type: 'session.update',
        session: { audio: { input: { format, transcription: { model: 'relay-upstream' } } } },
      });
    }
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
      bench.openai.tell({ type: 'input_audio_buffer.committed', item_id: `item_${item}` });
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
    for (let item = 0; item < 500; item += 1)
      bench.openai.tell({ type: 'input_audio_buffer.committed', item_id: `item_${item}` });
    await session.event('input_audio_buffer.committed', 500);
    session.say(append(tone(10)));
    session.say(append(tone(10)));
    await waitFor(() => said.length === 3, { description: 'the first of two appends' });
    // There and back once more, so that the second would have come.
    const pong = once(socket, 'pong');
    socket.ping();
    await pong;
    expect(said).toHaveLength(3);
    bench.openai.tell({ type: completed, item_id: 'item_0', content_index: 0, transcript: 'heard' });
    await waitFor(() => said.length === 4, { description: 'the second append' });
  });

  test('passes on errors of the upstream, and stays open', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay', manual));
    session.say({ type: 'input_audio_buffer.commit', event_id: 'mine' });
    expect((await session.event('error')).error).toMatchObject({ message: 'too short', event_id: 'mine' });
    expect(session.closed).toBeNull();
  });

  test('stays as it was after an update that its upstream refuses', async () => {
    await using session = await talk();
    const refused = { noise_reduction: { type: 'refused' } };
    session.say({ ...sessionUpdate('relay', refused), event_id: 'first' });
    expect((await session.event('error')).error).toMatchObject({ message: 'refused', event_id: 'first' });
    session.say(sessionUpdate(null, { ...manual, transcription: { language: 'de' } }));
    session.say(sessionUpdate(null, { ...refused, transcription: { language: 'fr' } }));
    session.say(sessionUpdate(null, { noise_reduction: { type: 'far_field' } }));
    await waitFor(() => session.events.filter(({ type }) => type === 'session.updated').length === 2, {
      description: 'two updates',
    });
    const updated = session.events.filter(({ type }) => type === 'session.updated');
    expect(updated.map((event) => event.session.audio.input)).toMatchObject([
      { noise_reduction: null, turn_detection: null, transcription: { model: 'relay', language: 'de' } },
      { noise_reduction: { type: 'far_field' }, turn_detection: null },
    ]);
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
    expect(await session.event(completed)).toMatchObject({ transcript: 'heard 48000 bytes' });
  });

  test('passes on every spoken word, but never the key or address of the upstream', async () => {
    await using session = await talk();
    session.say(sessionUpdate('relay'));
    session.say(append(tone(1_000)));
    await waitFor(() => bench.openai.connections[0]!.said.length === 2, { description: 'the audio upstream' });
    const { host } = new URL(bench.openai.url);
    const item_id = 'item_heard';
    const of = 'conversation.item.input_audio_transcription';
    bench.openai.tell(
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
    bench.openai.tell(error);
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
    bench.openai.tell(
      { type: 'session.created', padding: 'x'.repeat(4_000_000) },
      { type: 'error', error: { message: 'heard' } },
    );
    expect((await session.event('error')).error.message).toBe('heard');
    bench.openai.tell({ type: 'session.created', padding: 'x'.repeat(4 * 1024 * 1024) });
    expect((await session.close()).code).toBe(1013);
    expect((await session.event('error', 2)).error.code).toBe('upstream_error');
  });

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
