import { toFile } from 'openai';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import type { TruthEntry } from '../support/upstream-simulator.ts';
import { waitFor } from '../support/wait-for.ts';
import { wavOf } from '../support/wav.ts';

let bench: InferenceBench;
let organization: string;

beforeAll(async () => {
  bench = await startInferenceBench();
  organization = (await call('GET', '/organization')).json.id;
});
afterAll(() => bench?.[Symbol.asyncDispose]());

const call = (method: string, path: string, body?: unknown) =>
  bench.gateway.call(method, `/api/v1${path}`, bench.session, body);
const setPrice = async (model: string, rates: Record<string, number>) => {
  const answer = await call('POST', '/admin/prices', { model, ...rates });
  expect(answer.status, answer.text).toBe(201);
};

/** Amounts are below a million USD, so a double holds them to the nano-USD. */
const nano = (usd: number): bigint => BigInt(Math.round(usd * 1e9));
const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n);

const hello = [{ role: 'user' as const, content: 'Hello there' }];

test('a model without a price is refused to anyone with a cap before the upstream hears of it, and is free for others', async () => {
  const capped = await bench.gateway.createKey(bench.session, { spend_cap_usd: 5 });
  const refused = await bench.gateway.call('POST', '/v1/chat/completions', capped.key, {
    model: 'sim-chat',
    messages: hello,
  });
  expect([refused.status, refused.json.error.code]).toEqual([403, 'model_not_allowed']);
  expect(bench.simulator.requests).toHaveLength(0);
  await bench.client.chat.completions.create({ model: 'sim-chat', messages: hello });
  await bench.event({ success: true, cost_usd: 0 });
});

test('what the upstream did, usage, the ledger and the invoice agree to the nano-USD, over two prices and all measures', async () => {
  await bench.renew();
  const { client, simulator } = bench;
  const chatPrices: ChatPrice[] = [
    {
      input_per_million_tokens_usd: 0.15,
      cached_input_per_million_tokens_usd: 0.0750003,
      output_per_million_tokens_usd: 0.6,
    },
    { input_per_million_tokens_usd: 0.300001, output_per_million_tokens_usd: 1.2, per_request_usd: 0.000000003 },
  ];
  await setPrice('sim-chat', chatPrices[0]!);
  await setPrice('sim-embedding', { input_per_million_tokens_usd: 0.0200007 });
  await setPrice('sim-image', { per_image_usd: 0.04, per_request_usd: 0.000000001 });
  await setPrice('sim-speech', { per_million_characters_usd: 15.3 });
  await setPrice('sim-transcribe', { per_audio_second_usd: 0.000100001 });
  // Part of it is paid from credit, the rest goes on the invoice.
  expect((await call('POST', `/admin/organizations/${organization}/credits`, { amount_usd: 0.1 })).status).toBe(201);

  const chat = (stream: boolean, index: number) =>
    client.chat.completions.create({
      model: 'sim-chat',
      messages: hello,
      stream,
      metadata: { sim: JSON.stringify({ tokens: 3 + index, promptTokens: 1_001 + index, cachedTokens: index * 7 }) },
    } as never);
  const finish = async (answer: unknown) => {
    if (answer !== null && typeof answer === 'object' && Symbol.asyncIterator in answer)
      for await (const _ of answer as AsyncIterable<unknown>);
  };
  const chats = () => Array.from({ length: 12 }, (_, index) => chat(index % 3 === 0, index).then(finish));
  await Promise.all([
    ...chats(),
    ...Array.from({ length: 4 }, (_, index) =>
      client.embeddings.create({ model: 'sim-embedding', input: ['one', 'two', 'three'].slice(0, (index % 3) + 1) }),
    ),
    client.images.generate({ model: 'sim-image', prompt: 'a cat', n: 2 }),
    client.images.generate({ model: 'sim-image', prompt: 'a dog' }),
    client.audio.speech
      .create({ model: 'sim-speech', voice: 'alloy', input: 'Read this aloud, slowly.' })
      .then((r) => r.arrayBuffer()),
    client.audio.transcriptions.create({ model: 'sim-transcribe', file: await toFile(wavOf(3), 'a.wav') }),
  ]);
  const before = simulator.requests.length;
  await setPrice('sim-chat', chatPrices[1]!);
  // An edge follows the catalog: the new version is in force once it is there.
  const priced = async () =>
    (await call('GET', '/models')).json.data.find(({ id }: { id: string }) => id === 'sim-chat').prices
      .input_per_million_tokens_usd;
  await waitFor(async () => (await priced()) === 0.300001, { description: 'the new price' });
  await Promise.all(chats());

  const expected = simulator.requests.map((entry, index) =>
    costOf(entry, index < before ? chatPrices[0]! : chatPrices[1]!),
  );
  const truth = sum(expected);
  expect(truth).toBeGreaterThan(nano(0.1));

  const usage = async () => nano((await call('GET', '/usage/current?scope=tenant')).json.cost_usd);
  await waitFor(async () => (await usage()) === truth, { description: `usage of ${truth}`, timeoutMs: 10_000 });
  const events = (await call('GET', `/usage/history?limit=200&api_key_id=${bench.key.id}`)).json.data as {
    cost_usd: number;
  }[];
  expect(events.map(({ cost_usd }) => nano(cost_usd)).sort()).toEqual(expected.sort());

  const spent = async () => {
    const payg = nano((await call('GET', '/billing/payg-spend-cap')).json.spent_usd);
    const wallet = nano((await call('GET', '/billing/wallet')).json.balance_usd);
    return payg + nano(0.1) - wallet;
  };
  await waitFor(async () => (await spent()) === truth, { description: `charges of ${truth}`, timeoutMs: 10_000 });
  expect((await call('GET', '/billing/wallet')).json.balance_usd).toBe(0);
  const { data: charges } = (await call('GET', '/billing/documents/transactions?type=usage&limit=100')).json;
  expect(sum(charges.map(({ amount_usd }: { amount_usd: number }) => -nano(amount_usd)))).toBe(truth);

  const [draft] = (await call('GET', '/billing/documents/invoices')).json.data;
  const invoice = (await call('GET', `/billing/documents/invoices/${draft.id}`)).json;
  expect(nano(invoice.subtotal_usd)).toBe(truth);
  expect([nano(invoice.credits_usd), nano(invoice.total_usd)]).toEqual([nano(0.1), truth - nano(0.1)]);
  const lines = invoice.line_items as { model: string; unit: string; unit_price_usd: number; amount_usd: number }[];
  expect(sum(lines.map(({ amount_usd }) => nano(amount_usd)))).toBe(truth);
  const named = lines.map(({ model, unit, unit_price_usd }) => `${model} ${unit} ${unit_price_usd}`);
  for (const line of [
    'sim-chat million_input_tokens 0.15',
    'sim-chat million_input_tokens 0.300001',
    'sim-chat million_cached_input_tokens 0.0750003',
    'sim-chat million_output_tokens 1.2',
    'sim-chat request 3e-9',
    'sim-embedding million_input_tokens 0.0200007',
    'sim-image image 0.04',
    'sim-speech million_characters 15.3',
    'sim-transcribe audio_second 0.000100001',
  ]) {
    expect(named).toContain(line);
  }

  const billing = bench.gateway.gateway.switchboard.client('admin', BillingService);
  const { faults } = await billing.verifyLedger({}, { contextValues: callerContext(serviceCaller('admin')) });
  expect(faults).toEqual([]);
});

test.each<[what: string, limits: Record<string, number>[]]>([
  ['max_tokens of 0', [{ max_tokens: 0 }, { max_completion_tokens: 0 }]],
  ['n_predict of -1', [{ max_tokens: 1, n_predict: -1 }, { n_predict: -1 }]],
])(
  'calls with %s overshoot a cap by no more than one of them, although some servers take that for no limit',
  async (_what, limits) => {
    await bench.admin('PATCH', '/models/sim-chat', { max_output_tokens: 1_000 });
    await setPrice('sim-chat', { output_per_million_tokens_usd: 1_000 });
    const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.9 });
    const message = { role: 'assistant', content: 'word '.repeat(1_000) };
    const usage = { prompt_tokens: 1, completion_tokens: 1_000, total_tokens: 1_001 };
    const body = { id: 'a', object: 'chat.completion', choices: [{ index: 0, message, finish_reason: 'stop' }], usage };
    bench.simulator.otherwise(() => ({ headDelayMs: 100, instead: { status: 200, body } }));
    const ask = (limit: object) =>
      bench.gateway.call('POST', '/v1/chat/completions', key, { model: 'sim-chat', messages: hello, ...limit });
    const statuses = await Promise.all([...limits, ...limits].map(async (limit) => (await ask(limit)).status));
    expect(statuses.toSorted()).toEqual([200, 429, 429, 429]);
  },
);

test('near a cap an answer is cut in the field that llama.cpp heeds too, unless it asks for less', async () => {
  await bench.admin('PATCH', '/models/sim-chat', { max_output_tokens: 1_000 });
  await setPrice('sim-chat', { output_per_million_tokens_usd: 1_000 });
  const sent: [asked: number, sent: (allowed: number) => number][] = [
    [-1, (allowed) => allowed],
    [20_000, (allowed) => allowed],
    [5, () => 5],
  ];
  for (const [asked, expected] of sent) {
    const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.9 });
    const body = { model: 'sim-chat', messages: hello, n_predict: asked };
    expect((await bench.gateway.call('POST', '/v1/chat/completions', key, body)).status).toBe(200);
    const { n_predict, max_completion_tokens } = bench.simulator.requests.at(-1)!.json!;
    expect(max_completion_tokens).toBeLessThan(1_000);
    expect(n_predict).toBe(expected(Number(max_completion_tokens)));
  }
});

test('near a cap an answer is cut by max_tokens where an upstream refuses the newer field, as Mistral does', async () => {
  await bench.admin('PATCH', '/models/sim-chat', { max_output_tokens: 1_000 });
  await setPrice('sim-chat', { output_per_million_tokens_usd: 1_000 });
  const detail = [{ type: 'extra_forbidden', loc: ['body', 'max_completion_tokens'], msg: 'Not permitted' }];
  bench.simulator.otherwise(({ json }) =>
    json?.max_completion_tokens === undefined
      ? { tokens: 5 }
      : { instead: { status: 422, body: { message: { detail } } } },
  );
  const asked: unknown[] = [];
  for (const stream of [false, true]) {
    const { key } = await bench.gateway.createKey(bench.session, { spend_cap_usd: 0.9 });
    const before = bench.simulator.requests.length;
    const body = { model: 'sim-chat', messages: hello, stream };
    expect((await bench.gateway.call('POST', '/v1/chat/completions', key, body)).status).toBe(200);
    asked.push(bench.simulator.requests.slice(before).map(({ json }) => Number(json!.max_tokens) < 1_000));
  }
  // From then on it is asked so at once.
  expect(asked).toEqual([[false, true], [true]]);
});

type ChatPrice = Record<string, number>;

/** The cost of what the upstream says it did, computed independently: exact, then rounded half up. */
function costOf(entry: TruthEntry, chatPrice: ChatPrice): bigint {
  const reported = entry.reportedUsage as Record<string, number & Record<string, number>> | null;
  const scaled = (usd: number | undefined, quantity: number, per: bigint): bigint =>
    (nano(usd ?? 0) * BigInt(quantity) * 1_000_000n) / per;
  switch (entry.model) {
    case 'sim-chat': {
      const prompt = reported!.prompt_tokens!;
      const cached = reported!.prompt_tokens_details?.cached_tokens ?? 0;
      const input = chatPrice.input_per_million_tokens_usd;
      return rounded(
        scaled(input, prompt - cached, 1_000_000n) +
          scaled(chatPrice.cached_input_per_million_tokens_usd ?? input, cached, 1_000_000n) +
          scaled(chatPrice.output_per_million_tokens_usd, reported!.completion_tokens!, 1_000_000n) +
          scaled(chatPrice.per_request_usd, 1, 1n),
      );
    }
    case 'sim-embedding':
      return rounded(scaled(0.0200007, reported!.prompt_tokens!, 1_000_000n));
    case 'sim-image':
      return rounded(scaled(0.04, Number(entry.json!.n ?? 1), 1n) + scaled(0.000000001, 1, 1n));
    case 'sim-speech':
      return rounded(scaled(15.3, [...String(entry.json!.input)].length, 1_000_000n));
    default:
      return rounded(scaled(0.000100001, reported!.seconds!, 1n));
  }
}

const rounded = (millionths: bigint): bigint => (millionths + 500_000n) / 1_000_000n;
