import { afterAll, beforeAll, expect, test } from 'vitest';
import { ClockAhead } from '../support/clock-ahead.ts';
import { startTestGateway } from '../support/gateway.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { waitFor } from '../support/wait-for.ts';

const hourMs = 3_600_000;
/** The gateway's clock; the database keeps its own. */
const clock = new ClockAhead();

let bench: InferenceBench;
beforeAll(async () => {
  bench = await startInferenceBench({ clock, worker: false });
  const price = { model: 'sim-chat', per_request_usd: 1 };
  expect((await bench.gateway.call('POST', '/api/v1/admin/prices', bench.session, price)).status).toBe(201);
});
afterAll(async () => bench?.[Symbol.asyncDispose]());

const messages = [{ role: 'user' as const, content: 'Hi' }];

test("the day of a cap begins by the database's clock, not by any of ours", async () => {
  const { gateway, session } = bench;
  const { key } = await gateway.createKey(session, { spend_cap_usd: 1 });
  const outcome = async (): Promise<string> => {
    const { status, json } = await gateway.call('POST', '/v1/chat/completions', key, { model: 'sim-chat', messages });
    return status === 200 ? 'served' : json.error.code;
  };
  expect(await outcome()).toBe('served');
  for (const hours of [0, 1, -1, 24, -24]) {
    clock.aheadMs = hours * hourMs;
    expect(await outcome(), `${hours} hours ahead`).toBe('spend_cap_exceeded');
  }
  clock.aheadMs = 0;
});

test.each([hourMs, -hourMs])('a call during which the clock jumps by %i ms took its real time', async (stepMs) => {
  const heldMs = 20;
  await bench.renew();
  const { simulator, client } = bench;
  const released = Promise.withResolvers<void>();
  simulator.next({ hold: { until: released.promise, afterChunks: 3 } });
  const startedMs = performance.now();
  const stream = await client.chat.completions.create({ model: 'sim-chat', messages, stream: true });
  const reading = Array.fromAsync(stream);
  const begunMs = performance.now();
  const isHeld = () => simulator.requests[0]!.chunks >= 3 && performance.now() - begunMs >= heldMs;
  await waitFor(isHeld, { description: 'the stream to have been held for a while' });
  clock.aheadMs = stepMs;
  released.resolve();
  await reading;
  clock.aheadMs = 0;
  const event = await bench.event({ success: true });
  expect(event.latency_ms).toBeGreaterThanOrEqual(heldMs);
  expect(event.latency_ms).toBeLessThanOrEqual(performance.now() - startedMs);
});

test('a replica whose clock is behind charges, and lists, a price that applies at once as soon as it hears of it, and corrects one', async () => {
  await bench.renew();
  const behind = new ClockAhead();
  behind.aheadMs = -hourMs;
  await using replica = await startTestGateway({
    databaseUrl: bench.gateway.env.databaseUrl!,
    clock: behind,
    worker: false,
  });
  const model = 'sandbox-chat';
  const lastCost = async () => {
    expect((await replica.call('POST', '/v1/chat/completions', bench.key.key, { model, messages })).status).toBe(200);
    return (await bench.event({ model, success: true })).cost_usd;
  };
  for (const usd of [0.25, 0.5]) {
    await bench.admin('POST', '/prices', { model, per_request_usd: usd });
    await waitFor(async () => (await lastCost()) === usd, { description: `calls to cost ${usd}` });
    const { json } = await replica.call('GET', `/api/v1/models/${model}`, bench.key.key);
    expect(json.prices).toMatchObject({ per_request_usd: usd });
  }
  // Set by its clock, an hour before the one in force.
  const corrected = await replica.call('POST', '/api/v1/admin/prices', bench.session, { model, per_request_usd: 0.75 });
  expect(corrected.status, corrected.text).toBe(201);
  await waitFor(async () => (await lastCost()) === 0.75, { description: 'calls to cost the corrected price' });
});
