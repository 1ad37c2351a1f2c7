import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { owner } from '../support/gateway.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts';
import { restCalls } from '../support/rest.ts';
import { startUpstreamSimulator, type TruthEntry, type UpstreamSimulator } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';

/** 200 in the long run (LONG=1). */
const kills = process.env.LONG === '1' ? 200 : 20;
const clients = 8;

/** What a client saw of one request. */
type Seen = { testId: string; streamed: boolean; requestId: string | null; deltas: number; complete: boolean };

let database: TestDatabase;
let simulator: UpstreamSimulator;
let dataDir: string;

beforeAll(async () => {
  database = await createTestDatabase();
  simulator = await startUpstreamSimulator();
  simulator.otherwise((entry) => (entry.stream ? { chunkDelayMs: 3, tokens: 40 } : { tokens: 12 }));
  dataDir = mkdtempSync(join(tmpdir(), 'gateway-kill-'));
});
afterAll(async () => {
  await simulator?.close();
  await database?.drop();
  rmSync(dataDir, { recursive: true, force: true });
});

const startGateway = () =>
  startGatewayProcess({ DATA_DIR: dataDir, DATABASE_URL: database.url, UPSTREAM_BASE_URL: simulator.url });

/** One request. That the gateway dies during it is part of the test. */
async function request(url: string, key: string, testId: string, streamed: boolean): Promise<Seen> {
  const seen: Seen = { testId, streamed, requestId: null, deltas: 0, complete: false };
  try {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'sim-chat',
        stream: streamed,
        metadata: { testId },
        messages: [{ role: 'user', content: 'count' }],
      }),
    });
    if (response.status !== 200) return seen;
    seen.requestId = response.headers.get('x-request-id');
    if (!streamed) {
      await response.json();
      seen.complete = true;
      return seen;
    }
    let text = '';
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      seen.deltas = text.match(/"content":"[^"]/g)?.length ?? 0;
    }
    seen.complete = text.endsWith('data: [DONE]\n\n');
  } catch {
    // The gateway was killed.
  }
  return seen;
}

test(`${kills} kills under load lose no usage event and duplicate none, and each is charged once`, {
  timeout: 600_000,
}, async () => {
  const seen: Seen[] = [];
  let number = 0;
  let running = await startGateway();
  const call = restCalls(running.url);
  const { access_token: session } = await call('POST', '/api/v1/auth/login', '', owner);
  const { key } = await call('POST', '/api/v1/api-keys', session, { name: 'kill test' });
  const price = { model: 'sim-chat', input_per_million_tokens_usd: 1, output_per_million_tokens_usd: 3 };
  await call('POST', '/api/v1/admin/prices', session, price);

  for (let kill = 0; kill < kills; kill++) {
    const { child, url } = running;
    const before = seen.filter(({ complete }) => complete).length;
    const load = Array.from({ length: clients }, async (_, client) => {
      while (child.exit === null) {
        number += 1;
        seen.push(await request(url, key, `request-${number}`, client % 2 === 0));
      }
    });
    // Each life serves for a different while, so that kills fall into every phase.
    await waitFor(() => seen.filter(({ complete }) => complete).length - before >= 10 + ((kill * 7) % 30), {
      timeoutMs: 30_000,
      description: 'completed requests before the kill',
    });
    await child.kill();
    await Promise.all(load);
    running = await startGateway();
  }

  const client = new pg.Client(database.url);
  await client.connect();
  try {
    const events = async () =>
      (
        await client.query<{
          id: string;
          request_id: string;
          success: boolean;
          error_code: string;
          input_tokens: string;
          output_tokens: string;
        }>('select id, request_id, success, error_code, input_tokens, output_tokens from usage.events')
      ).rows;
    const withHead = seen.filter(({ requestId }) => requestId !== null);
    const stored = await waitFor(
      async () => {
        const rows = await events();
        const ids = new Set(rows.map((row) => row.request_id));
        return withHead.every(({ requestId }) => ids.has(requestId!)) && rows;
      },
      { timeoutMs: 30_000, description: 'an event of every request whose client saw a head' },
    );
    const byRequest = Map.groupBy(stored, (row) => row.request_id);
    for (const [requestId, rows] of byRequest) expect(rows, requestId).toHaveLength(1);

    const truth = new Map<string, TruthEntry>(
      simulator.requests.map((entry) => [(entry.json!.metadata as { testId: string }).testId, entry]),
    );
    for (const one of withHead) {
      const event = byRequest.get(one.requestId!)![0]!;
      const really = truth.get(one.testId)!;
      if (one.complete) {
        expect(event.success).toBe(true);
        expect(Number(event.output_tokens)).toBe(really.generatedTokens);
        expect(Number(event.input_tokens)).toBe(really.promptTokens);
      } else {
        expect(Number(event.output_tokens)).toBeGreaterThanOrEqual(one.deltas);
        expect(Number(event.output_tokens)).toBeLessThanOrEqual(really.generatedTokens);
      }
    }
    const costly = 'select count(*)::int, sum(cost_nano_usd) as sum from usage.events where cost_nano_usd > 0';
    const charges = 'select count(*)::int, -sum(amount_nano_usd) as sum from billing.transactions where type = 1';
    const wanted = (await client.query(costly)).rows;
    expect(wanted[0].count).toBeGreaterThan(10 * kills);
    await waitFor(async () => (await client.query(charges)).rows[0].count >= wanted[0].count, {
      timeoutMs: 30_000,
      description: 'a charge for every event',
    });
    expect((await client.query(charges)).rows).toEqual(wanted);
    // Nothing was metered that no upstream ever saw.
    expect(stored.length).toBeLessThanOrEqual(simulator.requests.length + clients * kills);
    expect(seen.filter(({ complete }) => !complete).length).toBeGreaterThan(0);
  } finally {
    await client.end();
    await running.child.kill();
  }
});
