import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { declaredRoutes } from '../support/routes.ts';

type Operation = { operationId: string; requestBody?: { required?: boolean } };
type Document = { paths: Record<string, Record<string, Operation>> };

let gateway: TestGateway;
let document: Document;

beforeAll(async () => {
  gateway = await startTestGateway();
  document = (await gateway.call('GET', '/openapi.json')).json;
});
afterAll(async () => gateway?.[Symbol.asyncDispose]());

/** Other paths of routes that are described, which clients need not know. */
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

test('every reference leads to a schema', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, reference]) => reference!);
  const target = (reference: string): unknown =>
    reference
      .split('/')
      .slice(1)
      .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], document);
  expect(references).not.toEqual([]);
  expect(references.filter((reference) => target(reference) === undefined)).toEqual([]);
});

test('a body that may be left out is not required', () => {
  const rotation = document.paths['/api/v1/api-keys/{key_id}/rotate']!.post!;
  const creation = document.paths['/api/v1/api-keys']!.post!;
  expect(rotation.requestBody!.required).toBe(false);
  expect(creation.requestBody!.required).toBe(true);
});

test('what is no longer published is not described', () => {
  expect(JSON.stringify(document.paths['/api/v1/auth/accept-invite'])).not.toContain('"email"');
});
