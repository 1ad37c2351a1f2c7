import { Validator } from '@seriousme/openapi-schema-validator';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { allowedScopes } from '#shared/scopes.ts';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { declaredRoutes } from '../support/routes.ts';

type Schema = {
  $ref?: string;
  type?: string;
  format?: string;
  description?: string;
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
};
type Operation = {
  operationId: string;
  description: string;
  responses: Record<string, { content?: Record<string, { schema: Schema }>; headers?: Record<string, unknown> }>;
  parameters?: { name: string; description?: string; schema: Schema }[];
  requestBody?: { required?: boolean; content: Record<string, { schema: Schema }> };
};
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

let gateway: TestGateway;
let document: Document;

beforeAll(async () => {
  gateway = await startTestGateway();
  document = (await gateway.call('GET', '/openapi.json')).json;
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

/** Other paths of described routes, which clients need not know. */
const aliases = [
  'GET /api/v1/auth/profile',
  'GET /api/v1/profile/rate-limits',
  'GET /api/v1/realtime',
  'GET /api/v1/usage',
  'POST /api/v1/audio/speech',
  'POST /api/v1/audio/transcriptions',
  'POST /api/v1/audio/translations',
  'POST /api/v1/chat/completions',
  'POST /api/v1/completions',
  'POST /api/v1/embeddings',
  'POST /api/v1/images/generations',
  'POST /api/v1/realtime/client_secrets',
];

test('the document is valid OpenAPI 3.1', async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(document);
  expect(valid, JSON.stringify(errors)).toBe(true);
  expect(validator.version).toBe('3.1');
});

test('every schema in it is valid: the gateway compiles them without checking', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  const schemas: object[] = Object.values(document.components.schemas);
  JSON.stringify(document.paths, (name, value) => {
    if (name === 'schema') schemas.push(value);
    return value;
  });
  expect(schemas.length).toBeGreaterThan(400);
  expect(schemas.filter((schema) => ajv.validateSchema(schema) !== true)).toEqual([]);
});

test('every route is described, or is another path of one that is', async () => {
  const undescribed = (await declaredRoutes()).filter(({ method, url }) => {
    const path = url.replace('*', '{model}').replace(/:(\w+)/g, '{$1}');
    return document.paths[path]?.[method.toLowerCase()] === undefined;
  });
  expect(undescribed.map(({ method, url }) => `${method} ${url}`).sort()).toEqual(aliases);
});

test('no two operations have the same id', () => {
  const ids = Object.values(document.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  );
  expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
});

test('every list says in which order it is, and is paged, except the models, which are as in OpenAI’s API', () => {
  const resolved = (schema: Schema | undefined): Schema | undefined =>
    schema?.$ref === undefined ? schema : document.components.schemas[schema.$ref.split('/').at(-1)!];
  const lists = Object.entries(document.paths).flatMap(([path, { get }]) => {
    const answer = resolved(get?.responses['200']?.content?.['application/json']?.schema)?.properties;
    const isList = resolved(answer?.data)?.type === 'array' && !/^(\/api)?\/v1\/models/.test(path);
    return isList ? [{ path, answer, description: get!.description, parameters: get!.parameters ?? [] }] : [];
  });
  expect(lists.length).toBeGreaterThan(20);
  const unordered = lists.filter(({ description }) => !/\b(first|by (name|code))\b/i.test(description));
  expect(unordered.map(({ path }) => path)).toEqual([]);
  const without = lists.filter(
    ({ answer, parameters }) => answer!.pagination === undefined || !parameters.some(({ name }) => name === 'limit'),
  );
  expect(without.map(({ path }) => path)).toEqual([]);
});

test('every reference resolves to a schema', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, reference]) => reference!);
  const target = (reference: string): unknown =>
    reference
      .split('/')
      .slice(1)
      .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], document);
  expect(references).not.toEqual([]);
  expect(references.filter((reference) => target(reference) === undefined)).toEqual([]);
});

test('an optional body is not marked required but described as it is when present, since generated clients cannot omit a body that may be null', () => {
  const rotation = document.paths['/api/v1/api-keys/{key_id}/rotate']!.post!;
  const creation = document.paths['/api/v1/api-keys']!.post!;
  expect(rotation.requestBody!.required).toBe(false);
  expect(rotation.requestBody!.content['application/json']!.schema.type).toBe('object');
  expect(creation.requestBody!.required).toBe(true);
});

/** What a request of an operation may contain: its parameters and the fields of its body. */
const fieldsOf = ({ parameters = [], requestBody }: Operation): [name: string, schema: Schema][] => [
  ...parameters.map(({ name, schema }): [string, Schema] => [name, schema]),
  ...Object.values(requestBody?.content ?? {}).flatMap(({ schema }) => Object.entries(schema.properties ?? {})),
];

test.each([
  // Jobs and requests have ids in OpenAI's form, payments their provider's, audit events name actors and targets of every kind, and analytics
  // accept any key's id.
  [/_id$/, 'uuid', ['actor_id', 'job_id', 'payment_id', 'reportOnKey', 'request_id', 'target_id']],
  [/^(start|end)_date$/, 'date', []],
  // Asking for a new password gets the same answer, whatever was sent.
  [/^(owner_)?email$/, 'email', ['askForNewPassword']],
])('a request field named %s is described as a %s', (name, format, exceptions) => {
  const fields = Object.values(document.paths)
    .flatMap(Object.values)
    .flatMap((operation) => fieldsOf(operation).map(([field, schema]) => ({ operation, field, schema })))
    .filter(({ field }) => name.test(field));
  expect(fields).not.toEqual([]);
  const unsaid = fields.filter(({ schema }) => schema.format !== format);
  const isException = (text: string): boolean => (exceptions as string[]).includes(text);
  expect(
    unsaid
      .filter(({ operation, field }) => !isException(field) && !isException(operation.operationId))
      .map(({ operation, field }) => `${operation.operationId}: ${field}`),
  ).toEqual([]);
});

test('creating a key lists the scopes it may have, and submitting a job the endpoints there are', () => {
  const fieldsOfPost = (path: string) => Object.fromEntries(fieldsOf(document.paths[path]!.post!));
  const { scopes } = fieldsOfPost('/api/v1/api-keys');
  for (const scope of [...allowedScopes('inference'), ...allowedScopes('management')]) {
    expect(scopes!.items!.description).toContain(`\`${scope}\``);
  }
  const { endpoint } = fieldsOfPost('/api/v1/jobs');
  for (const path of ['chat/completions', 'completions', 'embeddings', 'images/generations', 'audio/speech']) {
    expect(endpoint!.description).toContain(`\`/v1/${path}\``);
  }
});

test('what is no longer published is not described', () => {
  expect(JSON.stringify(document.paths['/api/v1/auth/accept-invite'])).not.toContain('"email"');
});

test('the headers by which clients follow a job, a retirement and the rate limits are described where they are sent', async () => {
  const session = await gateway.login();
  const { key } = await gateway.createKey(session);
  const retirement = { model: 'sandbox-chat', sunset_at: '2999-01-01', retirement_note: 'for the test' };
  expect((await gateway.call('POST', '/api/v1/admin/retirements', session, retirement)).status).toBe(201);
  const chat = { model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const path = '/v1/chat/completions';
  const answers = [
    [path, 'post', await gateway.call('POST', path, key, chat)],
    [path, 'post', await gateway.call('POST', path, key, { ...chat, background: true })],
    [path, 'post', await gateway.call('POST', path, key, { ...chat, messages: [] })],
    ['/api/v1/jobs', 'post', await gateway.call('POST', '/api/v1/jobs', session, { endpoint: path, body: chat })],
    ['/v1/models/{model}', 'get', await gateway.call('GET', '/v1/models/sandbox-chat', key)],
  ] as const;
  expect(answers.map(([, , { status }]) => status)).toEqual([200, 202, 400, 202, 200]);
  const told = /^(deprecation|sunset|link|location|retry-after|x-ratelimit-.*)$/;
  for (const [described, method, { status, headers }] of answers) {
    const { responses } = document.paths[described]![method]!;
    const names = Object.keys((responses[status] ?? responses.default)!.headers ?? {}).map((name) =>
      name.toLowerCase(),
    );
    const sent = [...headers.keys()].filter((name) => told.test(name));
    expect(sent).toContain('sunset');
    expect(names, `${method} ${described} ${status}`).toEqual(expect.arrayContaining(sent));
  }
});

test('generated clients can ask for a job, and know for how long a repeat is recognized', () => {
  const headersOf = (path: string) =>
    Object.fromEntries(document.paths[path]!.post!.parameters!.map(({ name, description }) => [name, description]));
  expect(Object.keys(headersOf('/v1/audio/transcriptions'))).toEqual(['Idempotency-Key', 'Prefer']);
  expect(headersOf('/api/v1/api-keys')['Idempotency-Key']).toContain('within 24 hours');
  for (const money of ['credits', 'adjustments', 'commitments', 'transactions/{transaction_id}/refund']) {
    expect(headersOf(`/api/v1/admin/organizations/{tenant_id}/${money}`)['Idempotency-Key']).toContain('however late');
  }
});
