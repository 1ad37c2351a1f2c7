import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ClockAhead } from '../support/clock-ahead.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import {
  append,
  type RealtimeTalk,
  sessionUpdate,
  talksOfTests,
  tone,
  upgradeRefusal,
} from '../support/realtime-client.ts';
import { type RealtimeBench, startRealtimeBench } from '../support/realtime-upstream.ts';

let bench: RealtimeBench;
/** The gateway's clock. */
const clock = new ClockAhead();

beforeAll(async () => {
  bench = await startRealtimeBench({ clock });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const open = talksOfTests();
const completed = 'conversation.item.input_audio_transcription.completed';

const settingsOf = {
  sandbox: () => ({ dialect: 'sandbox', upstream_model: 'sandbox-transcribe' }),
  vllm: () => ({ dialect: 'vllm', base_url: bench.vllm.url }),
  openai: () => ({ dialect: 'openai', base_url: bench.openai.url }),
};

describe.each([
  ['of files', 'sandbox'],
  ['of vLLM', 'vllm'],
  ['that is relayed', 'openai'],
] as const)('an open session %s', (_what, dialect) => {
  let made = 0;
  let model: string;
  let deployment: string;
  let session: RealtimeTalk;
  let said: number;

  const deploy = async () => {
    deployment = (await bench.admin('POST', '/deployments', { model, ...settingsOf[dialect]() })).id;
  };
  const say = () => {
    session.say(append(tone(1_000)));
    session.say({ type: 'input_audio_buffer.commit' });
  };
  /** Speaks an utterance of one second, and waits for its transcript. */
  const transcribed = async () => {
    said += 1;
    say();
    await session.event(completed, said);
  };

  beforeEach(async () => {
    model = `changing-${dialect}-${++made}`;
    await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
    await bench.admin('POST', '/prices', { model, per_audio_second_usd: 0.5 });
    await deploy();
    session = await open(bench.gateway.url, { key: bench.key.key });
    session.say(sessionUpdate(model, { turn_detection: null }));
    said = 0;
    await transcribed();
    await bench.event({ model, success: true, cost_usd: 0.5 });
  });

  test('continues when the deployment of its model is changed or replaced', async () => {
    await bench.admin('PATCH', `/deployments/${deployment}`, { weight: 7 });
    await transcribed();
    await bench.admin('DELETE', `/deployments/${deployment}`);
    await deploy();
    await transcribed();
    expect(session.events.filter(({ type }) => type === 'error' || type.endsWith('.failed'))).toEqual([]);
  });

  test('is charged the model’s current price', async () => {
    await bench.admin('POST', '/prices', { model, per_audio_second_usd: 2 });
    await transcribed();
    await bench.event({ model, success: true, cost_usd: 2 });
  });

  test.each([
    ['is taken from its organization', 'PATCH', { visibility: 'private' }, 'model_not_found'],
    ['answers sessions no more', 'PATCH', { operations: ['audio_transcriptions'] }, 'unsupported_model'],
    ['is deleted', 'DELETE', undefined, 'model_not_found'],
  ])('ends, as a new session would be refused, when its model %s', async (_change, method, body, code) => {
    if (method === 'DELETE') await bench.admin('DELETE', `/deployments/${deployment}`);
    await bench.admin(method, `/models/${model}`, body);
    say();
    expect(await session.close()).toEqual({ code: 4000, reason: `invalid_request_error.${code}` });
    expect(session.events.at(-1)).toMatchObject({ type: 'error', error: { code, param: 'model' } });
    expect(session.events.filter(({ type }) => type === completed)).toHaveLength(1);
  });

  test('continues when its model retires, while new ones are refused', async () => {
    await bench.admin('POST', '/retirements', {
      model,
      sunset_at: new Date(clock.now() + 60_000).toISOString(),
      replacement_model_name: 'sandbox-transcribe',
    });
    clock.aheadMs += 60_000;
    const query = `?intent=transcription&model=${model}`;
    expect((await upgradeRefusal(bench.gateway.url, { key: bench.key.key, query })).status).toBe(410);
    await transcribed();
    await bench.event({ model, success: true, cost_usd: 0.5 });
  });
});

test('while a deployment is away, any number of sessions are relayed to the others of its model', async () => {
  const { hostname: host, port } = new URL(bench.openai.url);
  await using proxy = await startFaultProxy({ target: { host, port: Number(port) } });
  const model = 'twins';
  await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
  for (const [priority, base_url] of [`http://${proxy.host}:${proxy.port}/v1`, bench.openai.url].entries()) {
    await bench.admin('POST', '/deployments', { model, base_url, dialect: 'openai', priority });
  }
  await proxy.set({ kind: 'refuse' });
  // The model's retries would not suffice for as many, each of which tries the one that is away.
  for (let count = 0; count < 25; count += 1) {
    const session = await open(bench.gateway.url, { key: bench.key.key });
    session.say(sessionUpdate(model));
    await session.event('session.updated');
    session.socket.terminate();
  }
});
