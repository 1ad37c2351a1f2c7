import { expect, test } from 'vitest';
import { uuidv7 } from '#shared/ids.ts';
import { waitingJobsMax } from '../../services/jobs/domain/quotas.ts';
import { openJobsDatabase, queueJobs } from '../../services/jobs/fixtures/test-queue.ts';
import { type Answer, startTestGateway } from '../support/gateway.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

type Refusal = readonly [status: number, code: string, param: string | null];

const invalid = (param: string): Refusal => [400, 'invalid_value', param];
const notFound: Refusal = [404, 'not_found', null];
const notForKeys: Refusal = [403, 'endpoint_not_allowed', null];

test('what cannot be a job is refused with the documented error, and creates no job and no charge', async () => {
  await using gateway = await startTestGateway();
  const session = await gateway.login();
  const { key } = await gateway.createKey(session);
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hello there' }] };
  const unknown = `job_${'0'.repeat(32)}`;

  const post = (path: string, body: object, headers?: Record<string, string>) =>
    gateway.call('POST', `/v1${path}`, key, body, headers);
  const transcribe = (fields: Record<string, string>) => {
    const form = new FormData();
    form.set('file', new File([wavOf(1)], 'speech.wav', { type: 'audio/wav' }));
    for (const [name, value] of Object.entries({ model: 'sandbox-transcribe', ...fields })) form.set(name, value);
    return post('/audio/transcriptions', form);
  };
  const submit = (fields: object, token = session) => gateway.call('POST', '/api/v1/jobs', token, fields);
  const jobs = (method: string, path: string) => gateway.call(method, `/api/v1/jobs${path}`, key);
  const speech = { model: 'sandbox-speech', input: 'a', voice: 'alloy', stream_format: 'sse', background: true };
  const tooLarge = { model: 'sandbox-chat', prompt: 'x'.repeat(4 * 1024 * 1024) };

  const refused: Readonly<Record<string, [() => Promise<Answer>, Refusal]>> = {
    'a background chat that streams': [
      () => post('/chat/completions', { ...chat, background: true, stream: true }),
      invalid('stream'),
    ],
    'a background chat that streams, with a model that is refused before': [
      () => post('/chat/completions', { ...chat, model: 'no-such-model', background: true, stream: true }),
      [404, 'model_not_found', 'model'],
    ],
    'a preference for a job that streams': [
      () => post('/chat/completions', { ...chat, stream: true }, { prefer: 'respond-async' }),
      invalid('stream'),
    ],
    'speech in the background as events': [() => post('/audio/speech', speech), invalid('stream_format')],
    'speech in the background that streams by the name that other operations have': [
      () => post('/audio/speech', { ...speech, stream_format: 'audio', stream: true }),
      invalid('stream'),
    ],
    'embeddings in the background that stream': [
      () => post('/embeddings', { model: 'sandbox-embed', input: 'a', background: true, stream: true }),
      invalid('stream'),
    ],
    'a form in the background that streams': [
      () => transcribe({ stream: 'true', background: 'true' }),
      invalid('stream'),
    ],
    'a string where a boolean belongs': [
      () => post('/chat/completions', { ...chat, background: 'true' }),
      invalid('background'),
    ],
    'a number where a boolean belongs': [
      () => post('/embeddings', { model: 'sandbox-embed', input: 'a', background: 1 }),
      invalid('background'),
    ],
    'a word in a form that is neither true nor false': [() => transcribe({ background: 'yes' }), invalid('background')],
    'a model that does not exist': [
      () => post('/chat/completions', { ...chat, model: 'nobody', background: true }),
      [404, 'model_not_found', 'model'],
    ],
    'a realtime session as a job': [() => submit({ endpoint: '/v1/realtime', body: {} }), invalid('endpoint')],
    'an upload through POST /jobs': [
      () => submit({ endpoint: '/v1/audio/transcriptions', body: {} }),
      invalid('endpoint'),
    ],
    'an unknown field of POST /jobs': [
      () => submit({ endpoint: '/v1/completions', body: {}, when: 'now' }),
      [400, 'unknown_field', 'when'],
    ],
    'more than 4 MiB through POST /jobs': [
      () => submit({ endpoint: '/v1/completions', body: tooLarge }),
      [413, 'request_too_large', null],
    ],
    'POST /jobs with a key': [() => submit({ endpoint: '/v1/completions', body: {} }, key), notForKeys],
    'DELETE with a key': [() => jobs('DELETE', `/${unknown}`), notForKeys],
    'an unknown id': [() => jobs('GET', `/${unknown}`), notFound],
    'a malformed id': [() => jobs('GET', '/job_1'), notFound],
    'an id with SQL': [() => jobs('GET', "/job_'%20or%201=1--"), notFound],
    'cancel of a malformed id': [() => jobs('POST', '/x/cancel'), notFound],
    'cancel of an unknown id': [() => jobs('POST', `/${unknown}/cancel`), notFound],
    'a malformed cursor': [() => jobs('GET', '?after=job_1'), invalid('after')],
    'an unknown status': [() => jobs('GET', '?status=done'), invalid('status')],
    'a limit above 100': [() => jobs('GET', '?limit=101'), invalid('limit')],
    'an order that is none': [() => jobs('GET', '?order=up'), invalid('order')],
  };
  for (const [what, [call, expected]] of Object.entries(refused)) {
    const { status, json, headers } = await call();
    expect([status, json?.error.code, json?.error.param], what).toEqual(expected);
    if (json.error.code === 'invalid_value') expect(json.error.message, what).toContain(`\`${json.error.param}\``);
    // What remains of the limits is reported on calls that count towards them and on those they refuse.
    expect(headers.get('x-ratelimit-remaining-requests'), what).toBeNull();
  }

  expect((await gateway.call('GET', '/api/v1/jobs/stats', session)).json.total).toBe(0);
  // Usage is stored in the order of the calls: once a later call's is there, the refused ones have none.
  const answered = await post('/chat/completions', chat);
  const history = await waitFor(
    async () => {
      const { data } = (await gateway.call('GET', '/api/v1/usage/history', session)).json;
      return data.length > 0 && data;
    },
    { description: 'the usage of a call that is answered' },
  );
  expect(history.map(({ request_id }: { request_id: string }) => request_id)).toEqual([
    answered.headers.get('x-request-id'),
  ]);
});

test('a job of an organization with as many as may wait is refused with 429, saying when to try again', async () => {
  await using gateway = await startTestGateway({ worker: false });
  const session = await gateway.login();
  const { key } = await gateway.createKey(session);
  const { id: tenantId } = (await gateway.call('GET', '/api/v1/organization', session)).json;
  const database = await openJobsDatabase(gateway.env.databaseUrl!);
  await queueJobs(database, waitingJobsMax, { tenantId, userId: uuidv7() });
  await database.close();
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hello there' }] };
  const refused = [
    await gateway.call('POST', '/v1/chat/completions', key, { ...chat, background: true }),
    await gateway.call('POST', '/api/v1/jobs', session, { endpoint: '/v1/chat/completions', body: chat }),
  ];
  for (const { status, headers, json } of refused) {
    expect([status, json.error.type, json.error.code]).toEqual([429, 'requests', 'rate_limit_exceeded']);
    expect(json.error.message).toContain('10,000');
    expect(headers.get('retry-after')).toBe('30');
    expect(headers.get('x-ratelimit-remaining-requests')).not.toBeNull();
  }
  expect((await gateway.call('GET', '/api/v1/jobs/stats', session)).json.total).toBe(0);
  // A call that is answered directly is not a job.
  expect((await gateway.call('POST', '/v1/chat/completions', key, chat)).status).toBe(200);
});

test('a submission refused by the rate limit reports what remains of it, as a call does', async () => {
  await using gateway = await startTestGateway({ worker: false });
  const session = await gateway.login();
  const { id, key } = await gateway.createKey(session);
  const limits = { requests_per_minute: 1 };
  const limited = await gateway.call('PUT', `/api/v1/admin/keys/${id}/rate-limits`, session, limits);
  expect(limited.status, limited.text).toBe(200);
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hello there' }] };
  const submit = () => gateway.call('POST', '/v1/chat/completions', key, { ...chat, background: true });
  const refused = await waitFor(
    async () => {
      const answer = await submit();
      return answer.status === 429 && answer;
    },
    { description: 'the limit to be reached' },
  );
  expect(refused.json.error.code).toBe('rate_limit_exceeded');
  const standing = ['limit', 'remaining'].map((what) => refused.headers.get(`x-ratelimit-${what}-requests`));
  expect(standing).toEqual(['1', '0']);
});
