import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { owner } from '../support/gateway.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import type { StartedProcess } from '../support/processes.ts';
import { append, openTalk, quiet, sessionUpdate, tone, UpgradeRefused } from '../support/realtime-client.ts';
import { restCalls } from '../support/rest.ts';
import { filesOfUploads } from '../support/uploads.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

let database: TestDatabase;
let simulator: UpstreamSimulator;
let dataDir: string;
/** The file that says what is wrong with the journal's disk. */
let fault: string;
let child: StartedProcess;
let url: string;
let session: string;
let key: { id: string; key: string };

beforeAll(async () => {
  database = await createTestDatabase();
  simulator = await startUpstreamSimulator();
  dataDir = mkdtempSync(join(tmpdir(), 'gateway-disk-'));
  fault = join(dataDir, 'fault');
  const damaged = join(dataDir, 'journal', 'damaged');
  mkdirSync(damaged, { recursive: true });
  writeFileSync(join(damaged, '1-whole-segment-1'), '');
  writeFileSync(join(damaged, '1-broken-segment-1'), 'no frame of ours '.repeat(10));
  ({ child, url } = await startGatewayProcess({
    NODE_OPTIONS: `--import=${new URL('../support/faulty-disk.ts', import.meta.url)}`,
    DISK_FAULT: fault,
    DATA_DIR: dataDir,
    DATABASE_URL: database.url,
    UPSTREAM_BASE_URL: simulator.url,
    LOG_LEVEL: 'fatal',
  }));
  session = (await restCalls(url)('POST', '/api/v1/auth/login', '', owner)).access_token;
  key = await restCalls(url)('POST', '/api/v1/api-keys', session, { name: 'disk test' });
});
afterAll(async () => {
  await child?.kill();
  await simulator?.close();
  await database?.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

const post = (path: string, token: string, body: object) =>
  fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
const messages = [{ role: 'user', content: 'Hi' }];
const chat = (fields: object = {}) => post('/v1/chat/completions', key.key, { model: 'sim-chat', messages, ...fields });

type Seen = { status: number; retryAfter: string | null | undefined; code?: string };
const seen = async (response: Response): Promise<Seen> => ({
  status: response.status,
  retryAfter: response.headers.get('retry-after'),
  code: ((await response.json()) as { error?: { code: string } }).error?.code,
});

/** Everything that uses a model and is billed. */
const billable: Readonly<Record<string, () => Promise<Seen>>> = {
  'a call': async () => seen(await chat()),
  'a background job': async () =>
    seen(
      await post('/api/v1/jobs', session, { endpoint: '/v1/chat/completions', body: { model: 'sim-chat', messages } }),
    ),
  'a realtime session': async () => {
    try {
      await using _talk = await openTalk(url, { key: key.key, query: '?model=sandbox-transcribe' });
      return { status: 101, retryAfter: null };
    } catch (error) {
      if (!(error instanceof UpgradeRefused)) throw error;
      return { status: error.status, retryAfter: error.headers['retry-after'], code: error.body.error.code };
    }
  },
};

test('what an earlier version could not read is read again at the start, and metrics count what remains', async () => {
  await waitFor(
    async () => /^gateway_journal_damaged_segments 1$/m.test(await (await fetch(`${url}/metrics`)).text()),
    { description: 'one segment to have been read, and one to be kept' },
  );
});

test('on a full disk new work is 503 with Retry-After, the edge is not ready, an open stream finishes and is billed, and work resumes once there is room', async () => {
  const released = Promise.withResolvers<void>();
  simulator.next({ tokens: 6, hold: { until: released.promise, afterChunks: 2 } });
  const stream = await chat({ stream: true });
  writeFileSync(fault, 'full');
  // The first write that the disk refuses makes it known.
  await waitFor(async () => (await chat()).status === 503, { description: 'the full disk to be noticed' });
  for (const [what, attempt] of Object.entries(billable)) {
    const refused = { status: 503, retryAfter: '5', code: 'server_is_overloaded' };
    expect([what, await attempt()]).toEqual([what, refused]);
  }
  const readiness = async () => {
    const answer = await fetch(`${url}/readyz`);
    return [answer.status, await answer.json()];
  };
  const reason = 'the metering journal cannot be written';
  expect(await readiness()).toEqual([503, { status: 'not ready', reason }]);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  released.resolve();
  expect(await stream.text()).toMatch(/data: \[DONE\]\n\n$/);

  rmSync(fault);
  // By itself: no call is sent here meanwhile.
  await waitFor(async () => (await readiness())[0] === 200, { description: 'the edge to be ready again' });
  for (const [what, attempt] of Object.entries(billable)) {
    await waitFor(async () => (await attempt()).status < 300, { description: what });
  }
  const events = await waitFor(
    async () => {
      const { data } = await restCalls(url)('GET', `/api/v1/usage/history?limit=100&api_key_id=${key.id}`, session);
      const requestId = stream.headers.get('x-request-id');
      const found = data.filter((event: { request_id: string }) => event.request_id === requestId);
      return found.length > 0 && found;
    },
    { description: 'the usage of the stream' },
  );
  expect(events).toEqual([expect.objectContaining({ success: true, output_tokens: 6 })]);
});

test('on a full disk an open realtime session transcribes what was being said, bills it once there is room, and ends with a retryable error instead of hearing more', async () => {
  await using talk = await openTalk(url, { key: key.key });
  talk.say(sessionUpdate('sandbox-transcribe'));
  talk.say(append(tone(1_000)));
  await talk.event('input_audio_buffer.speech_started');
  writeFileSync(fault, 'full');
  await waitFor(async () => (await chat()).status === 503, { description: 'the full disk to be noticed' });
  talk.say(append(quiet(1_000)));
  await talk.event('conversation.item.input_audio_transcription.completed');
  talk.say(append(tone(1_000)));
  expect(await talk.close()).toEqual({ code: 1013, reason: 'service_unavailable_error.server_is_overloaded' });
  expect(talk.events.filter(({ type }) => type === 'input_audio_buffer.speech_started')).toHaveLength(1);

  rmSync(fault);
  const { data } = await waitFor(
    async () => {
      const path = `/api/v1/usage/history?model=sandbox-transcribe&api_key_id=${key.id}`;
      const history = await restCalls(url)('GET', path, session);
      return history.data.length > 0 && history;
    },
    { description: 'the usage of the utterance' },
  );
  expect(data).toEqual([expect.objectContaining({ success: true, request_id: talk.requestId })]);
  await waitFor(async () => (await chat()).status === 200, { description: 'a call to be taken' });
});

async function upload(): Promise<Seen> {
  const body = new FormData();
  body.append('model', 'sim-transcribe');
  body.append('file', new Blob([new Uint8Array(300_000)]), 'speech.wav');
  const headers = { authorization: `Bearer ${key.key}` };
  return seen(await fetch(`${url}/v1/audio/transcriptions`, { method: 'POST', headers, body }));
}

test('uploads are accepted although somebody has deleted their folder', async () => {
  const folder = join(dataDir, 'uploads');
  rmSync(folder, { recursive: true });
  const seen = await Promise.all([upload(), upload(), upload()]);
  expect(seen.map(({ status }) => status)).toEqual([200, 200, 200]);
  await waitFor(() => filesOfUploads(dataDir).length === 0, { description: 'no file' });
  expect(readdirSync(folder)).toHaveLength(1);
});

test('nor are they refused for good if their folder could not be made anew at first', async () => {
  const folder = join(dataDir, 'uploads');
  rmSync(folder, { recursive: true });
  symlinkSync(join(dataDir, 'not', 'there'), folder);
  for (let times = 0; times < 2; times += 1) expect((await upload()).status).toBe(503);
  rmSync(folder);
  expect((await upload()).status).toBe(200);
});

test('on a full disk an upload is 503 with Retry-After, leaves no file, and is accepted again once there is room', async () => {
  const files = () => filesOfUploads(dataDir);
  writeFileSync(fault, 'full');
  expect(await upload()).toEqual({ status: 503, retryAfter: '5', code: 'server_is_overloaded' });
  await waitFor(() => files().length === 0, { description: 'no file' });
  rmSync(fault);
  await waitFor(async () => (await upload()).status === 200, { description: 'an upload to be taken' });
  await waitFor(() => files().length === 0, { description: 'no file' });
});

test('a disk that cannot confirm what was written ends the process with exit code 70', async () => {
  writeFileSync(fault, 'failing');
  chat().catch(() => {});
  expect(await child.exited()).toEqual({ code: 70, signal: null });
});
