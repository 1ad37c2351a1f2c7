import type OpenAI from 'openai';
import { toFile } from 'openai';
import { CursorPage } from 'openai/pagination';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

/** While the clock stands still, the sandbox answers the same request with the same bytes. */
const clock = new ManualClock(Date.now());

let gateway: TestGateway;
let session: string;
let key: { id: string; key: string };
let client: OpenAI;

beforeAll(async () => {
  gateway = await startTestGateway({ clock });
  session = await gateway.login();
  key = await gateway.createKey(session);
  client = gateway.openai(key.key, { prefix: '/api/v1' });
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hello there' }] };

const post = (path: string, body: unknown, headers?: Record<string, string>) =>
  gateway.call('POST', path, key.key, body, headers);

type Job = Record<string, unknown> & { id: string; status: string; result: unknown };

function ended(id: string): Promise<Job> {
  let advancedMs = performance.now();
  return waitFor(
    async () => {
      const job = await client.get<Job>(`/jobs/${id}`);
      // If the machine was too busy for a first attempt, the next one is due later, so the clock must be moved there.
      if (job.status === 'queued' && job.started_at !== null && performance.now() > advancedMs + 1_000) {
        advancedMs = performance.now();
        clock.advance(5_000);
      }
      if (!['completed', 'failed', 'cancelled'].includes(job.status)) throw new Error(JSON.stringify(job));
      return job;
    },
    { description: `the end of ${id}`, timeoutMs: 15_000, intervalMs: 10 },
  );
}

const rawJob = async (id: string): Promise<string> => (await gateway.call('GET', `/api/v1/jobs/${id}`, key.key)).text;

const form = (fields: Record<string, string>): FormData => {
  const data = new FormData();
  data.set('file', new File([wavOf(1)], 'speech.wav', { type: 'audio/wav' }));
  for (const [name, value] of Object.entries(fields)) data.set(name, value);
  return data;
};

describe('each operation in the background', () => {
  const json: [string, object][] = [
    ['/chat/completions', chat],
    ['/completions', { model: 'sandbox-chat', prompt: 'Once upon a time' }],
    ['/embeddings', { model: 'sandbox-embed', input: ['one', 'two'] }],
    ['/images/generations', { model: 'sandbox-image', prompt: 'a square', size: '256x256' }],
  ];
  test.each(json)('%s ends with the same bytes as the synchronous answer', async (path, body) => {
    const submitted = await client.post<Job>(path, { body: { ...body, background: true } });
    expect(submitted).toMatchObject({ object: 'job', endpoint: `/v1${path}`, status: 'queued', result: null });
    const job = await ended(submitted.id);
    expect(job).toMatchObject({ status: 'completed', error: null, usage: { cost_usd: expect.any(Number) } });
    const synchronous = await post(`/v1${path}`, body);
    expect(synchronous.status, synchronous.text).toBe(200);
    expect(await rawJob(job.id)).toContain(`"result":${synchronous.text},"usage":`);
  });

  const audio: [string, Record<string, string>][] = [
    ['/audio/transcriptions', { model: 'sandbox-transcribe' }],
    ['/audio/translations', { model: 'sandbox-transcribe' }],
  ];
  test.each(audio)('%s keeps its upload and ends with the synchronous answer', async (path, fields) => {
    const synchronous = await post(`/v1${path}`, form(fields));
    expect(synchronous.status, synchronous.text).toBe(200);
    // As JavaScript and Python spell it.
    for (const background of ['true', 'True']) {
      const submitted = await client.post<Job>(path, { body: form({ ...fields, background }) });
      const job = await ended(submitted.id);
      expect(job).toMatchObject({ status: 'completed', endpoint: `/v1${path}`, result: synchronous.json });
    }
    expect((await post(`/v1${path}`, form({ ...fields, background: 'False' }))).json).toEqual(synchronous.json);
  });

  test('speech and subtitles, which are not JSON, are returned with their content type, in base64', async () => {
    const speech = { model: 'sandbox-speech', input: 'Good morning', voice: 'alloy', response_format: 'wav' };
    const sound = await fetch(`${gateway.url}/v1/audio/speech`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(speech),
    });
    const b64 = Buffer.from(await sound.arrayBuffer()).toString('base64');
    const submitted = await client.post<Job>('/audio/speech', { body: { ...speech, background: true } });
    expect((await ended(submitted.id)).result).toEqual({ content_type: sound.headers.get('content-type'), b64 });

    const fields = { model: 'sandbox-transcribe', response_format: 'srt' };
    const subtitles = await post('/v1/audio/transcriptions', form(fields));
    const second = await post('/v1/audio/transcriptions', form({ ...fields, background: 'true' }));
    const { result } = await ended(second.json.id);
    expect(result).toEqual({
      content_type: subtitles.headers.get('content-type'),
      b64: Buffer.from(subtitles.text).toString('base64'),
    });
  });

  test('an upload through the SDK, of a file larger than one row, is complete when the job runs', async () => {
    const file = await toFile(wavOf(100), 'large.wav');
    const options = { body: { file, model: 'sandbox-transcribe', background: true } };
    const submitted = (await client.audio.transcriptions.create(options.body as never)) as unknown as Job;
    const job = await ended(submitted.id);
    expect(job).toMatchObject({ status: 'completed', usage: { audio_seconds: 100 } });
  });
});

describe('a submission', () => {
  test('answers 202 with where and when to look, the job, the limits and the fields of the contract', async () => {
    const answer = await post('/v1/chat/completions', {
      ...chat,
      background: true,
      metadata: { order: '17', ['🔑'.repeat(64)]: '😀'.repeat(512) },
    });
    expect(answer.status).toBe(202);
    expect(answer.headers.get('location')).toBe(`/api/v1/jobs/${answer.json.id}`);
    expect(answer.headers.get('retry-after')).toBe('2');
    expect(Number(answer.headers.get('x-ratelimit-limit-requests'))).toBeGreaterThan(0);
    expect(Object.keys(answer.json)).toEqual([
      ...['id', 'object', 'endpoint', 'model', 'status', 'created_at', 'started_at', 'completed_at', 'failed_at'],
      ...['cancelled_at', 'expires_at', 'error', 'result', 'usage', 'metadata'],
    ]);
    expect(answer.json.id).toMatch(/^job_[0-9a-f]{32}$/);
    expect(answer.json.created_at).toMatch(/^\d{4}-\d{2}-\d{2}T.*Z$/);
    const job = await ended(answer.json.id);
    expect(job.metadata).toEqual({ order: '17', ['🔑'.repeat(64)]: '😀'.repeat(512) });
    // 2.50 USD and 10 USD per million tokens.
    const usage = job.usage as Record<'input_tokens' | 'output_tokens' | 'cost_usd', number>;
    expect(usage.cost_usd).toBe((usage.input_tokens * 2_500 + usage.output_tokens * 10_000) / 1e9);
    const lifeMs = Date.parse(job.expires_at as string) - Date.parse(job.completed_at as string);
    expect(lifeMs).toBe(86_400_000);
  });

  test('drops metadata that Postgres cannot store, and still runs', async () => {
    for (const metadata of [{ a: '\0' }, { a: '\ud800' }, { '\udfff': 'a' }]) {
      const answer = await post('/v1/chat/completions', { ...chat, background: true, metadata });
      expect(answer.status, answer.text).toBe(202);
      expect(await ended(answer.json.id)).toMatchObject({ status: 'completed', metadata: {} });
    }
  });

  test('may be requested with Prefer: respond-async, and under either prefix', async () => {
    for (const path of ['/v1/chat/completions', '/api/v1/chat/completions']) {
      const answer = await post(path, chat, { prefer: 'wait=5, respond-async' });
      expect(answer.status).toBe(202);
      expect(answer.headers.get('preference-applied')).toBe('respond-async');
      expect(answer.json.endpoint).toBe('/v1/chat/completions');
    }
    const upload = await post('/v1/audio/transcriptions', form({ model: 'sandbox-transcribe' }), {
      prefer: 'respond-async',
    });
    expect(upload.status).toBe(202);
  });

  test('with `background` false or null is an ordinary call', async () => {
    for (const background of [false, null]) {
      expect((await post('/v1/chat/completions', { ...chat, background })).json.object).toBe('chat.completion');
      const image = await post('/v1/images/generations', { model: 'sandbox-image', prompt: 'a square', background });
      expect(image.json.data).toHaveLength(1);
    }
  });

  test('for an image with a transparent background is not a job', async () => {
    const answer = await post('/v1/images/generations', {
      model: 'sandbox-image',
      prompt: 'a square',
      size: '256x256',
      background: 'transparent',
    });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.json.data).toHaveLength(1);
  });

  test('happens once under one Idempotency-Key, and another body under it is refused', async () => {
    const headers = { 'idempotency-key': 'order-1' };
    const body = { ...chat, background: true };
    const first = await post('/v1/chat/completions', body, headers);
    const again = await Promise.all(Array.from({ length: 5 }, () => post('/v1/chat/completions', body, headers)));
    expect(again.map(({ status, json }) => [status, json.id])).toEqual(again.map(() => [202, first.json.id]));
    const other = await post('/v1/chat/completions', { ...body, temperature: 0 }, headers);
    expect([other.status, other.json.error.code]).toEqual([400, 'idempotency_key_reused']);

    // A form has a new boundary each time it is sent.
    const upload = () => form({ model: 'sandbox-transcribe', background: 'true' });
    const one = await post('/v1/audio/transcriptions', upload(), { 'idempotency-key': 'order-2' });
    const two = await post('/v1/audio/transcriptions', upload(), { 'idempotency-key': 'order-2' });
    expect(two.json.id).toBe(one.json.id);
  });

  test('repeated after the end of its job returns the result, just as reading the job does', async () => {
    for (const [key, n] of [
      ['ended-1', 1],
      // Of a result that is larger than one row.
      ['ended-2', 64],
    ] as const) {
      const body = { model: 'sandbox-embed', input: Array(n).fill('text'), encoding_format: 'float', background: true };
      const first = await post('/v1/embeddings', body, { 'idempotency-key': key });
      const job = await ended(first.json.id);
      expect(job.result).toMatchObject({ object: 'list' });
      const again = await post('/v1/embeddings', body, { 'idempotency-key': key });
      expect([again.status, again.json]).toEqual([202, job]);
      const cancelled = await post(`/api/v1/jobs/${job.id}/cancel`, undefined);
      expect([cancelled.status, cancelled.json]).toEqual([200, job]);
    }
  });

  test('sent many times at once under one Idempotency-Key is one job', async () => {
    const body = { ...chat, background: true };
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => post('/v1/chat/completions', body, { 'idempotency-key': 'at-once' })),
    );
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1);
  });

  test('from a session: POST /jobs with an endpoint and a body', async () => {
    const answer = await gateway.call('POST', '/api/v1/jobs', session, {
      endpoint: '/v1/chat/completions',
      body: chat,
    });
    expect(answer.status, answer.text).toBe(202);
    const job = await waitFor(
      async () => {
        const { json } = await gateway.call('GET', `/api/v1/jobs/${answer.json.id}`, session);
        return json.status === 'completed' && json;
      },
      { description: 'the end of the job of a session' },
    );
    expect(job.result.object).toBe('chat.completion');
  });
});

test('another user of the same organization does not find the job, nor does a key without the scope', async () => {
  const mine = await post('/v1/chat/completions', { ...chat, background: true });
  const invited = await gateway.call('POST', '/api/v1/invitations', session, {
    email: 'mate@example.com',
    role: 'member',
  });
  expect(invited.status, invited.text).toBe(201);
  const mail = await gateway.call('GET', '/api/v1/admin/mail?search=mate@example.com', session);
  const token = /[?&]token=([\w-]+)/.exec(mail.text)![1];
  const mate = { email: 'mate@example.com', password: 'Correct-horse-2' };
  await gateway.call('POST', '/api/v1/auth/accept-invite', '', {
    ...{ token, password: mate.password, first_name: 'M', last_name: 'Ate' },
  });
  const other = await gateway.login(mate);
  for (const [method, path] of [
    ['GET', `/api/v1/jobs/${mine.json.id}`],
    ['POST', `/api/v1/jobs/${mine.json.id}/cancel`],
    ['DELETE', `/api/v1/jobs/${mine.json.id}`],
  ] as const) {
    expect((await gateway.call(method, path, other)).status, path).toBe(404);
  }
  expect((await gateway.call('GET', '/api/v1/jobs', other)).json.data).toEqual([]);
  expect((await gateway.call('GET', '/api/v1/admin/jobs', other)).status).toBe(403);

  const blind = await gateway.createKey(session, { scopes: ['inference:chat'] });
  const refusal = await gateway.call('GET', '/api/v1/jobs', blind.key);
  expect([refusal.status, refusal.json.error.code]).toEqual([403, 'missing_scope']);
  expect(refusal.json.error.message).toContain('jobs:read_own');
});

describe('lists', () => {
  test('page by number or by the SDK’s cursor, in both orders, with filters and without results', async () => {
    const fresh = await gateway.createKey(session);
    const own = gateway.openai(fresh.key, { prefix: '/api/v1' });
    const submitted: string[] = [];
    for (let number = 0; number < 5; number += 1) {
      const job = await own.post<Job>('/embeddings', {
        body: { model: 'sandbox-embed', input: `text ${number}`, background: true },
      });
      submitted.push(job.id);
    }
    for (const id of submitted) await ended(id);
    const filter = { endpoint: '/v1/embeddings', model: 'sandbox-embed', status: 'completed' };

    const first = await own.getAPIList('/jobs', CursorPage<Job>, { query: { ...filter, limit: 2 } });
    const ids: string[] = [];
    for await (const job of first) {
      expect(job).not.toHaveProperty('result');
      ids.push(job.id);
    }
    expect(ids.slice(0, 5)).toEqual(submitted.toReversed());

    const ascending = await own.getAPIList('/jobs', CursorPage<Job>, {
      query: { ...filter, limit: 100, order: 'asc', after: submitted[1]! },
    });
    expect(ascending.data.map(({ id }) => id)).toEqual(submitted.slice(2));
    expect(ascending.has_more).toBe(false);
    // Both ways of paging agree on what comes after a cursor and what before it.
    for (const [after, isMore] of [
      [submitted[1]!, true],
      [submitted[2]!, false],
    ] as const) {
      const query = new URLSearchParams({ ...filter, limit: '2', order: 'asc', after });
      const { json } = await gateway.call('GET', `/api/v1/jobs?${query}`, fresh.key);
      expect(json).toMatchObject({ has_more: isMore, pagination: { has_next: isMore, has_prev: true } });
    }

    const query = new URLSearchParams({ ...filter, limit: '2', page: '2' });
    const { json } = await gateway.call('GET', `/api/v1/jobs?${query}`, fresh.key);
    expect(json).toMatchObject({
      object: 'list',
      first_id: submitted[2],
      last_id: submitted[1],
      has_more: true,
      pagination: { page: 2, limit: 2, has_prev: true, has_next: true },
    });
    expect(json.pagination.total).toBe(ids.length);
    query.set('endpoint', '/api/v1/embeddings');
    expect((await gateway.call('GET', `/api/v1/jobs?${query}`, fresh.key)).json.pagination).toEqual(json.pagination);
    expect((await gateway.call('GET', '/api/v1/jobs?model=nobody', fresh.key)).json).toMatchObject({
      data: [],
      first_id: null,
      last_id: null,
      has_more: false,
    });
  });

  test('stats count every state, and operators see everyone’s jobs without requests or results', async () => {
    const stats = (await gateway.call('GET', '/api/v1/jobs/stats', key.key)).json;
    expect(Object.keys(stats.by_status)).toEqual(['queued', 'in_progress', 'completed', 'failed', 'cancelled']);
    const sum = Object.values<number>(stats.by_status).reduce((total, count) => total + count, 0);
    expect(stats.total).toBe(sum);
    const all = await gateway.call('GET', '/api/v1/admin/jobs?limit=1&status=completed', session);
    expect(all.json.data[0]).toMatchObject({ status: 'completed', attempts: 1, worker_id: null });
    expect(all.json.data[0]).not.toHaveProperty('result');
    expect(all.json.data[0]).not.toHaveProperty('metadata');
  });
});

describe('a finished job', () => {
  test('is unchanged by any number of cancellations, and can be deleted in a session', async () => {
    const { id } = (await post('/v1/chat/completions', { ...chat, background: true })).json;
    const before = await ended(id);
    for (let times = 0; times < 2; times += 1) {
      const answer = await gateway.call('POST', `/api/v1/jobs/${id}/cancel`, key.key);
      expect([answer.status, answer.json]).toEqual([200, before]);
    }
    expect((await gateway.call('DELETE', `/api/v1/jobs/${id}`, session)).status).toBe(204);
    expect((await gateway.call('DELETE', `/api/v1/jobs/${id}`, session)).status).toBe(404);
    expect((await gateway.call('GET', `/api/v1/jobs/${id}`, key.key)).status).toBe(404);
  });

  test('shows its result to no key that may only cancel, however large it is', async () => {
    const canceller = (await gateway.createKey(session, { scopes: ['jobs:cancel_own'] })).key;
    const large = { model: 'sandbox-embed', input: Array(64).fill('text'), encoding_format: 'float' };
    for (const [path, body] of [
      ['/v1/chat/completions', chat],
      ['/v1/embeddings', large],
    ] as const) {
      const { id } = (await post(path, { ...body, background: true })).json;
      const whole = await ended(id);
      expect(whole.result).not.toBeNull();
      const answer = await gateway.call('POST', `/api/v1/jobs/${id}/cancel`, canceller);
      expect([answer.status, answer.json]).toEqual([200, { ...whole, result: null }]);
      // Sessions may read everything.
      const inSession = await gateway.call('POST', `/api/v1/jobs/${id}/cancel`, session);
      expect([inSession.status, inSession.json]).toEqual([200, whole]);
    }
  });

  test('does not run again under its Idempotency-Key within 24 hours, even if it was deleted', async () => {
    const body = { ...chat, background: true };
    const submit = (fields = body) => post('/v1/chat/completions', fields, { 'idempotency-key': 'deleted' });
    const { id } = (await submit()).json;
    await ended(id);
    expect((await gateway.call('DELETE', `/api/v1/jobs/${id}`, session)).status).toBe(204);
    const { total } = (await gateway.call('GET', '/api/v1/jobs/stats', key.key)).json;
    const again = await submit();
    expect([again.status, again.json.error]).toEqual([
      404,
      expect.objectContaining({ code: 'not_found', param: 'Idempotency-Key' }),
    ]);
    const other = await submit({ ...body, temperature: 0 } as typeof body);
    expect([other.status, other.json.error.code]).toEqual([400, 'idempotency_key_reused']);
    expect((await gateway.call('GET', '/api/v1/jobs/stats', key.key)).json.total).toBe(total);

    clock.advance(86_400_000 + 1_000);
    session = await gateway.login();
    const later = await submit();
    expect(later.status, later.text).toBe(202);
    expect(later.json.id).not.toBe(id);
    await ended(later.json.id);
    expect((await gateway.call('DELETE', `/api/v1/jobs/${later.json.id}`, session)).status).toBe(204);
    expect((await submit()).status).toBe(404);
  });

  test('/metrics shows depth, age and outcomes', async () => {
    const { id } = (await post('/v1/chat/completions', { ...chat, background: true })).json;
    await ended(id);
    const text = await waitFor(
      async () => {
        const metrics = (await gateway.call('GET', '/metrics')).text;
        return /^gateway_jobs\{status="in_progress"\} 0$/m.test(metrics) && metrics;
      },
      { description: 'no job to run' },
    );
    expect(text).toMatch(/^gateway_jobs\{status="queued"\} 0$/m);
    expect(text).toMatch(/^gateway_jobs_oldest_queued_seconds 0$/m);
    expect(text).toMatch(/^gateway_jobs_ended_total\{outcome="completed"\} [1-9]\d*$/m);
    expect(text).toMatch(/^gateway_jobs_wait_seconds_count [1-9]\d*$/m);
  });

  test('is gone 24 hours after its end', async () => {
    const { id } = (await post('/v1/chat/completions', { ...chat, background: true })).json;
    await ended(id);
    clock.advance(86_400_000 - 5_000);
    session = await gateway.login();
    expect((await gateway.call('GET', `/api/v1/jobs/${id}`, session)).status).toBe(200);
    clock.advance(10_000);
    for (const [method, path] of [
      ['GET', `/api/v1/jobs/${id}`],
      ['POST', `/api/v1/jobs/${id}/cancel`],
      ['DELETE', `/api/v1/jobs/${id}`],
    ] as const) {
      const answer = await gateway.call(method, path, session);
      expect([answer.status, answer.json.error.code], method).toEqual([404, 'not_found']);
    }
    expect((await gateway.call('GET', '/api/v1/jobs/stats', session)).json.total).toBe(0);
    const { data, pagination } = (await gateway.call('GET', '/api/v1/jobs', session)).json;
    expect([data, pagination.total]).toEqual([[], 0]);
  });
});
