import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { startUpstreamSimulator, type UpstreamSimulator } from '../support/upstream-simulator.ts';

describe('the main job, end to end', () => {
  let gateway: TestGateway;
  let session: string;
  let key: { id: string; key: string };

  beforeAll(async () => {
    gateway = await startTestGateway();
    session = await gateway.login();
    key = await gateway.createKey(session);
  });
  afterAll(async () => gateway?.[Symbol.asyncDispose]());

  const messages = [{ role: 'user' as const, content: 'Hello!' }];

  test.each(['/v1', '/api/v1'] as const)('an unmodified client chats under %s', async (prefix) => {
    const completion = await gateway
      .openai(key.key, { prefix })
      .chat.completions.create({ model: 'sandbox-chat', messages });
    expect(completion.choices[0]!.message.content).toContain('sandbox');
    expect(completion.usage!.total_tokens).toBeGreaterThan(0);
    expect(completion._request_id).toMatch(/^req_/);
  });

  test('an unmodified client streams the same words', async () => {
    const whole = await gateway.openai(key.key).chat.completions.create({ model: 'sandbox-chat', messages });
    const stream = await gateway
      .openai(key.key)
      .chat.completions.create({ model: 'sandbox-chat', messages, stream: true });
    let text = '';
    for await (const chunk of stream) {
      expect(chunk.choices).toHaveLength(1);
      text += chunk.choices[0]!.delta.content ?? '';
    }
    expect(text).toBe(whole.choices[0]!.message.content);
  });

  test('usage comes in the last chunk if the client asks for it, and only then', async () => {
    const stream = await gateway.openai(key.key).chat.completions.create({
      model: 'sandbox-chat',
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    const chunks = await Array.fromAsync(stream);
    expect(chunks.at(-1)!.choices).toEqual([]);
    expect(chunks.at(-1)!.usage!.completion_tokens).toBeGreaterThan(0);
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  });

  test('models are listed and described', async () => {
    const client = gateway.openai(key.key);
    const ids = (await Array.fromAsync(client.models.list())).map(({ id }) => id);
    expect(ids).toContain('sandbox-chat');
    expect(await client.models.retrieve('sandbox-chat')).toMatchObject({
      object: 'model',
      owned_by: 'sandbox',
      created: expect.closeTo(Date.now() / 1000, -3),
      is_serviceable: true,
      shutdown_date: null,
    });
    await expect(client.models.retrieve('no/such:model')).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  });

  test('a deleted key is refused by the next request', async () => {
    const doomed = await gateway.createKey(session);
    const client = gateway.openai(doomed.key);
    await client.models.list();
    expect((await gateway.call('DELETE', `/api/v1/api-keys/${doomed.id}`, session)).status).toBe(204);
    await expect(client.models.list()).rejects.toMatchObject({ status: 401, code: 'invalid_api_key' });
  });
});

describe('an upstream given by UPSTREAM_BASE_URL', () => {
  let simulator: UpstreamSimulator;
  let gateway: TestGateway;
  let client: OpenAI;

  beforeAll(async () => {
    simulator = await startUpstreamSimulator();
    gateway = await startTestGateway({ env: { UPSTREAM_BASE_URL: simulator.url } });
    client = gateway.openai((await gateway.createKey(await gateway.login())).key);
  });
  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await simulator?.[Symbol.asyncDispose]();
  });

  test('its models are discovered and answer', async () => {
    const ids = (await Array.fromAsync(client.models.list())).map(({ id }) => id);
    const model = ids.find((id) => !id.startsWith('sandbox-'))!;
    const completion = await client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hi' }] });
    expect(completion.choices[0]!.message.content).toBe(simulator.requests[0]!.text);
  });
});
