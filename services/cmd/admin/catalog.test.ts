import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { adminOf } from '../../../test/support/admin.ts';
import { startTestGateway, type TestGateway } from '../../../test/support/gateway.ts';
import { waitFor } from '../../../test/support/wait-for.ts';

let gateway: TestGateway;
let session: string;
type Rates = Readonly<Record<string, number>>;
const directory = mkdtempSync(join(tmpdir(), 'catalog-'));
beforeAll(async () => {
  gateway = await startTestGateway({ env: { UPSTREAM_ACME_KEY: 'the-upstreams-own-key' } });
  session = await gateway.login();
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

const { admin, json } = adminOf(() => gateway);
/** How many imports the audit trail shows, once it has received all. */
const importsTold = async (): Promise<number> => {
  const isToldAll = async () =>
    /^gateway_outbox_waiting\{service="models",outbox="audit_events"\} 0$/m.test(
      (await gateway.call('GET', '/metrics')).text,
    );
  await waitFor(isToldAll, { description: 'all audit events to be handed on' });
  const path = '/api/v1/admin/audit-events?type=catalog_imported';
  return (await gateway.call('GET', path, session)).json.pagination.total;
};
const catalogFile = (text: string | Buffer): string => {
  const file = join(directory, 'catalog.yaml');
  writeFileSync(file, text);
  return file;
};

const catalog = `
models:
  - name: acme/large:v2
    display_name: Acme Large
    operations: [chat_completions, completions]
    context_window: 8192
    deployments:
      - dialect: sandbox
        upstream_model: sandbox-chat
      - base_url: https://gpu.example/v1
        dialect: vllm
        priority: 1
    price:
      input_per_million_tokens_usd: 0.1
      output_per_million_tokens_usd: 0.000000001
  - name: acme/secret
    visibility: private
    operations: [embeddings]
`;

test('a catalog file is imported, and importing it again changes nothing', async () => {
  const file = catalogFile(catalog);
  const first = {
    models_created: 2,
    models_updated: 0,
    deployments_created: 2,
    deployments_updated: 0,
    prices_created: 1,
  };
  expect(await json('models', 'import', file, '--dry-run')).toEqual({ dry_run: true, ...first });
  expect(await json('models', 'list', '--search', 'acme')).toEqual([]);
  expect(await json('models', 'import', file)).toEqual({ dry_run: false, ...first });
  const told = await importsTold();
  expect(await json('models', 'import', file)).toMatchObject({
    models_created: 0,
    models_updated: 0,
    deployments_created: 0,
    prices_created: 0,
  });
  expect(await importsTold()).toBe(told);

  const shown = await gateway.call('GET', '/api/v1/admin/models/acme%2Flarge%3Av2', session);
  expect(shown.json).toMatchObject({
    display_name: 'Acme Large',
    operations: ['chat_completions', 'completions'],
    context_window: 8192,
    deployments: [
      { dialect: 'sandbox', upstream_model: 'sandbox-chat' },
      { dialect: 'vllm', base_url: 'https://gpu.example/v1', priority: 1 },
    ],
  });
  expect(shown.text).toContain('"output_per_million_tokens_usd":0.000000001');
  expect((await gateway.call('GET', '/api/v1/admin/models/acme%2Fsecret', session)).json.visibility).toBe('private');
});

test('a catalog file with a deployment of a model that the sandbox lacks is refused, naming it', async () => {
  const file = catalogFile(
    'models: [{ name: acme/lost, deployments: [{ dialect: sandbox, upstream_model: gpt-4o }] }]',
  );
  const refused = await admin('models', 'import', file);
  expect([refused.exitCode, refused.stderr]).toEqual([1, expect.stringContaining('The sandbox has no model `gpt-4o`')]);
  expect(await json('models', 'list', '--search', 'acme/lost')).toEqual([]);
});

test('a catalog file may name more than a thousand models', async () => {
  const models = (input: number) =>
    Array.from({ length: 1_100 }, (_, index) => ({
      name: `many/${index}`,
      deployments: [{ dialect: 'sandbox', upstream_model: 'sandbox-chat' }],
      price: { input_per_million_tokens_usd: input },
    }));
  const imported = (input: number) => json('models', 'import', catalogFile(JSON.stringify({ models: models(input) })));
  const all = { models_created: 1_100, deployments_created: 1_100, prices_created: 1_100 };
  expect(await imported(1)).toMatchObject(all);
  expect(await imported(2)).toMatchObject({ models_created: 0, deployments_created: 0, prices_created: 1_100 });
  expect(await imported(2)).toMatchObject({ models_updated: 0, deployments_updated: 0, prices_created: 0 });
});

test('an import makes no model private that users of a retiring one are told to use instead', async () => {
  const models = (visibility: string) => `
models:
  - { name: acme/retiring, deployments: [{ dialect: sandbox, upstream_model: sandbox-chat }] }
  - { name: acme/next, visibility: ${visibility}, display_name: ${visibility} }
`;
  await json('models', 'import', catalogFile(models('public')));
  await json('retirements', 'announce', 'acme/retiring', '--successor', 'acme/next');
  for (const flags of [[], ['--dry-run']]) {
    const refused = await admin('models', 'import', catalogFile(models('private')), ...flags);
    const told = expect.stringContaining('`acme/next` is the successor of `acme/retiring`');
    expect([refused.exitCode, refused.stderr]).toEqual([1, told]);
  }
  const { data } = (await gateway.call('GET', '/api/v1/admin/models?search=acme/next', session)).json;
  expect(data).toMatchObject([{ visibility: 'public', display_name: 'public' }]);
});

test('an import changes of a deployment only what it names, and keeps the rest as an operator has set it', async () => {
  const file = (fields: object) =>
    catalogFile(
      JSON.stringify({
        models: [{ name: 'acme/tuned', deployments: [{ base_url: 'https://gpu.example/v1', ...fields }] }],
      }),
    );
  const deployment = async () =>
    (await gateway.call('GET', '/api/v1/admin/models/acme%2Ftuned', session)).json.deployments[0];
  await json('models', 'import', file({ dialect: 'vllm', weight: 2 }));
  const { id } = await deployment();
  const tuned = { priority: 3, total_timeout_ms: 90_000, secret_reference: 'env:UPSTREAM_ACME_KEY' };
  await gateway.call('PATCH', `/api/v1/admin/deployments/${id}`, session, tuned);
  expect(await json('models', 'import', file({ dialect: 'vllm', weight: 2 }))).toMatchObject({
    deployments_created: 0,
    deployments_updated: 0,
  });
  expect(await deployment()).toMatchObject({ id, dialect: 'vllm', weight: 2, ...tuned });
  expect(await json('models', 'import', file({ weight: 5, enabled: false }))).toMatchObject({ deployments_updated: 1 });
  expect(await deployment()).toMatchObject({ id, dialect: 'vllm', weight: 5, status: 'Stopped', ...tuned });
  await json('models', 'import', file({ enabled: true }));
  expect(await deployment()).toMatchObject({ id, weight: 5, status: 'Pending', ...tuned });
});

test('a number of tokens that is null in the file is unknown from then on, as over REST', async () => {
  const imported = (fields: string) =>
    json('models', 'import', catalogFile(`models: [{ name: acme/vague, ${fields} }]`));
  await imported('context_window: 8192, max_output_tokens: 4096');
  expect(await imported('context_window: null, max_output_tokens: ')).toMatchObject({ models_updated: 1 });
  expect(await json('models', 'show', 'acme/vague')).toMatchObject({ context_window: null, max_output_tokens: null });
});

test('an import sets a price unless it is the one in force, whatever price is to follow', async () => {
  const file = (rate: number) =>
    catalogFile(JSON.stringify({ models: [{ name: 'acme/dear', price: { per_request_usd: rate } }] }));
  await json('models', 'import', file(1));
  const next = { model: 'acme/dear', effective_from: '2999-01-01T00:00:00Z', per_request_usd: 2 };
  expect((await gateway.call('POST', '/api/v1/admin/prices', session, next)).status).toBe(201);
  expect(await json('models', 'import', file(1))).toMatchObject({ prices_created: 0 });
  expect(await json('models', 'import', file(2))).toMatchObject({ prices_created: 1 });
});

test('an import changes of a price only the rates that it names: the others stay, and are not free of charge', async () => {
  const imported = (price: object) =>
    json('models', 'import', catalogFile(JSON.stringify({ models: [{ name: 'acme/repriced', price }] })));
  const price = async () => {
    // The price before may still be listed for a moment.
    const newest: Rates = (await gateway.call('GET', '/api/v1/admin/models/acme%2Frepriced', session)).json.prices.at(
      -1,
    );
    return [
      newest.input_per_million_tokens_usd,
      newest.cached_input_per_million_tokens_usd,
      newest.output_per_million_tokens_usd,
    ];
  };
  const whole = { cached_input_per_million_tokens_usd: 0, output_per_million_tokens_usd: 1.5 };
  await imported({ input_per_million_tokens_usd: 0.5, ...whole });
  expect(await imported({ output_per_million_tokens_usd: 2 })).toMatchObject({ prices_created: 1 });
  expect(await price()).toEqual([0.5, 0, 2]);
  expect(await imported({ output_per_million_tokens_usd: 2 })).toMatchObject({ prices_created: 0 });
  await imported({ input_per_million_tokens_usd: 0 });
  expect(await price()).toEqual([0, 0, 2]);
});

test('an import takes back the rate of cached input that is null in the file, so that it costs what other input does', async () => {
  const imported = (price: object) =>
    json('models', 'import', catalogFile(JSON.stringify({ models: [{ name: 'acme/uncached', price }] })));
  await imported({ input_per_million_tokens_usd: 1, cached_input_per_million_tokens_usd: 0.1 });
  const inForce = async () =>
    (await json('prices', 'list', '--model', 'acme/uncached')).map(
      (rates: Rates) => rates.cached_input_per_million_tokens_usd,
    );
  expect(await inForce()).toEqual([0.1]);
  expect(await imported({ cached_input_per_million_tokens_usd: null })).toMatchObject({ prices_created: 1 });
  expect((await inForce()).at(-1)).toBe(1);
  expect(await imported({ cached_input_per_million_tokens_usd: null })).toMatchObject({ prices_created: 0 });
  await imported({ input_per_million_tokens_usd: 2 });
  expect((await inForce()).at(-1)).toBe(2);
  const other = await admin('models', 'import', catalogFile('models: [{ name: a, price: { per_request_usd: null } }]'));
  expect([other.exitCode, other.stderr]).toEqual([2, expect.stringContaining('models[0].price.per_request_usd')]);
});

test('the catalog that services/README.md shows can be imported', async () => {
  const manual = readFileSync(new URL('../../../services/README.md', import.meta.url), 'utf8');
  const shown = /```yaml\n(models:\n.*?)```/s.exec(manual)![1]!;
  expect(await json('models', 'import', catalogFile(shown), '--dry-run')).toMatchObject({
    models_created: 1,
    deployments_created: 1,
    prices_created: 1,
  });
});

test('a catalog file may merge what several of its entries share', async () => {
  const file = catalogFile(`models:
  - { name: acme/shared-1, operations: [embeddings], price: &price { per_request_usd: 1, per_image_usd: 2 } }
  - { name: acme/shared-2, operations: [embeddings], price: { <<: *price, per_image_usd: 3 } }`);
  expect(await json('models', 'import', file)).toMatchObject({ models_created: 2, prices_created: 2 });
  const { data } = (await gateway.call('GET', '/api/v1/admin/prices?model=acme/shared-2', session)).json;
  expect(data).toMatchObject([{ per_request_usd: 1, per_image_usd: 3 }]);
});

test('an import is recorded as one audit event, and a dry run as none', async () => {
  const file = catalogFile('models: [{ name: acme/told, operations: [embeddings] }]');
  await json('models', 'import', file, '--dry-run');
  await json('models', 'import', file);
  const told = async () => {
    const { data } = (await gateway.call('GET', '/api/v1/admin/audit-events?type=catalog_imported', session)).json;
    return data.filter((event: { changes: { after: { models: string[] } } }) =>
      event.changes.after.models.includes('acme/told'),
    );
  };
  await expect.poll(told).toMatchObject([
    {
      tenant_id: null,
      actor: { type: 'system', id: 'admin' },
      target: { type: 'catalog', id: null },
      changes: { after: { models: ['acme/told'], models_created: 1, prices_created: 0 } },
    },
  ]);
});

test('an import of more names than one audit event may hold is carried out as its dry run says, and recorded whole', async () => {
  const names = Array.from({ length: 1_100 }, (_, index) => `acme/${index}-${'long'.repeat(60)}`);
  const file = catalogFile(JSON.stringify({ models: names.map((name) => ({ name, operations: ['embeddings'] })) }));
  const counts = { models_created: names.length, prices_created: 0 };
  expect(await json('models', 'import', file, '--dry-run')).toMatchObject({ dry_run: true, ...counts });
  expect(await json('models', 'import', file)).toMatchObject({ dry_run: false, ...counts });
  await importsTold();
  const { data } = (await gateway.call('GET', '/api/v1/admin/audit-events?type=catalog_imported', session)).json;
  const told = data
    .map((event: { changes: { after: { models: string[]; models_created?: number } } }) => event.changes.after)
    .filter((after: { models: string[] }) => after.models.some((name) => names.includes(name)));
  expect(new Set(told.flatMap((after: { models: string[] }) => after.models))).toEqual(new Set(names));
  // Whoever adds up the events counts nothing twice.
  expect(told.map((after: { models_created?: number }) => after.models_created).filter(Boolean)).toEqual([1_100]);
});

test.each([
  ['models: [', 'YAML'],
  ['model: []', 'model: unknown field'],
  ['models: {}', 'models: expected a list'],
  ['models: [{ operations: [embeddings] }]', 'models[0].name: expected a string'],
  [
    'models: [{ name: a, operations: [fly] }]',
    'models[0].operations[0]: expected one of chat_completions, completions',
  ],
  ['models: [{ name: a, operations: embeddings }]', 'models[0].operations: expected a list'],
  ['models: [{ name: a, visibility: secret }]', 'models[0].visibility: expected one of public, private\n'],
  [
    'models: [{ name: a, nickname: b }]',
    'models[0].nickname: unknown field; expected one of name, deployments, price, display_name',
  ],
  ['models: [{ name: a, context_window: big }]', 'models[0].context_window: expected number (uint32), got "big"'],
  ['models: [{ name: a, price: { per_image_usd: -1 } }]', 'models[0].price.per_image_usd'],
  ['models: [{ name: a, price: {} }]', 'models[0].price: expected at least one rate'],
  ['models: [{ name: a, price: { per_image: 1 } }]', 'models[0].price.per_image'],
  ['models: [{ name: a, price: { constructor: 1 } }]', 'models[0].price.constructor: unknown field'],
  ['models: [{ name: a, deployments: [https://x] }]', 'models[0].deployments[0]'],
  ['models: [{ name: a, deployments: [{ weight: no }] }]', 'models[0].deployments[0].weight: expected number'],
  ['models: [{ name: a, deployments: [{ dialect: x }] }]', 'models[0].deployments[0].dialect: expected one of'],
  ['models: [{ name: a, price: { per_image_usd: 1e300 } }]', 'models[0].price.per_image_usd'],
  ['models: [{ name: a, display_name: null }]', 'models[0].display_name: expected a value'],
  [
    'models: [{ name: a, deployments: [{ base_url: "https://x/v1", secret_reference: }] }]',
    'models[0].deployments[0].secret_reference: expected a value',
  ],
])('the file %j is refused with the position of the mistake', async (text, told) => {
  const outcome = await admin('models', 'import', catalogFile(text));
  expect([outcome.exitCode, outcome.stdout]).toEqual([2, '']);
  expect(outcome.stderr).toContain(told);
  expect(await json('models', 'list', '--search', 'a,')).toEqual([]);
});

test('a file in another encoding is refused: its other letters would become replacement characters', async () => {
  const file = catalogFile(Buffer.from('models: [{ name: acme/encoded, display_name: Café }]', 'latin1'));
  const { exitCode, stderr } = await admin('models', 'import', file, '--dry-run');
  expect([exitCode, stderr]).toEqual([2, expect.stringContaining('catalog.yaml is not UTF-8')]);
});

test('a retirement is announced, dated and withdrawn from a shell', async () => {
  const model = 'sandbox-embed';
  const announced = await json('retirements', 'announce', model, '--note', 'No longer needed.');
  expect(announced).toMatchObject({ model, note: 'No longer needed.', retires_at: '' });
  const again = await admin('retirements', 'announce', model, '--successor', 'sandbox-chat');
  expect([again.exitCode, again.stderr]).toEqual([1, expect.stringContaining('withdraw it to name another successor')]);
  expect(await json('retirements', 'date', model, '2100-01-01')).toMatchObject({
    retires_at: '2100-01-01T00:00:00.000Z',
  });
  expect(await json('retirements', 'list', '--model', model)).toHaveLength(1);
  expect((await json('retirements', 'withdraw', model)).withdrawn_at).not.toBe('');
  const both = await admin('retirements', 'announce', model, '--note', 'x', '--successor', 'sandbox-chat');
  expect([both.exitCode, both.stderr.split('\n')[0]]).toEqual([2, 'give either --successor or --note']);
  const past = await admin('retirements', 'announce', model, '--note', 'x', '--date', '2020-01-01');
  expect([past.exitCode, past.stderr]).toEqual([1, '`sunset_at` must be in the future.\n']);
  for (const time of ['2100-02-31', '2100-02-31T00:00:00Z', '9999-12-31T23:59:59-23:59']) {
    expect((await admin('retirements', 'announce', model, '--note', 'x', '--date', time)).exitCode).toBe(2);
  }
});

test.each([
  [
    'a model',
    ['{ name: acme/twice, price: { per_request_usd: 1 } }', '{ name: acme/twice, price: { per_request_usd: 2 } }'],
  ],
  ['a deployment', ['{ name: acme/twice, deployments: [{ base_url: "https://x/v1" }, { base_url: "https://x/v1" }] }']],
])('a file that names %s twice creates none of its models', async (_what, models) => {
  const text = ['models:', ...models.map((model) => `  - ${model}`)].join('\n');
  const { exitCode, stderr } = await admin('models', 'import', catalogFile(text));
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining('twice')]);
  expect(await json('models', 'list', '--search', 'acme/twice')).toEqual([]);
});

test.each([
  ['deployments: [{ upstream_model: x }]', '`models[1].deployments[0]`: A deployment needs a `base_url`.'],
  ['deployments: [{ base_url: "ftp://x" }]', '`models[1].deployments[0]`: `base_url` must be an http or https URL'],
  [
    'deployments: [{ base_url: "https://x", secret_reference: "env:UPSTREAM_NONE" }]',
    '`models[1].deployments[0]`: `secret_reference` names UPSTREAM_NONE',
  ],
  ['owned_by: " "', '`models[1]`: Invalid value for `owned_by`'],
])('what the gateway refuses of a catalog file is said with its place: %s', async (mistake, told) => {
  const file = catalogFile(`models: [{ name: acme/sound }, { name: acme/amiss, ${mistake} }]`);
  const { exitCode, stderr } = await admin('models', 'import', file);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining(told)]);
});

test('a file with a model whose path would collide with something else creates none of its models', async () => {
  const models = ['acme/first', 'acme/../second'].map((name) => `  - { name: ${name}, operations: [embeddings] }`);
  const { exitCode, stderr } = await admin('models', 'import', catalogFile(['models:', ...models].join('\n')));
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining('acme/../second')]);
  expect(await json('models', 'list', '--search', 'acme/first')).toEqual([]);
});

test.each([
  ['deployments: [{ dialect: sandbox, sandbox: { latencyms: 5 } }]', 'models[0].deployments[0].sandbox.latencyms'],
  ['deployments: [{ dialect: sandbox, sandbox: { latency_ms: slow } }]', 'models[0].deployments[0].sandbox.latency_ms'],
  ['deployments: [{ dialect: sandbox, sandbox: 5 }]', 'models[0].deployments[0].sandbox'],
  ['price: { input_per_million_tokens_usd: 9999999999 }', 'models[0].price.input_per_million_tokens_usd'],
  ['price: { per_image_usd: 1000.000000001 }', 'models[0].price.per_image_usd'],
  ['"\\e]0;obeyed by terminals\\a": 1', 'models[0].?]0;obeyed by terminals?'],
])('a mistake in a catalog file is a line that names its place: %s', async (mistake, place) => {
  const { exitCode, stderr } = await admin(
    'models',
    'import',
    catalogFile(`models: [{ name: acme/amiss, ${mistake} }]`),
  );
  expect([exitCode, stderr.split('\n')[0]]).toEqual([2, expect.stringContaining(`${place}: `)]);
});
