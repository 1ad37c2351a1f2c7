import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { askJson } from './fixtures/test-exchange.ts';
import { valueForSchema } from './schema-value.ts';

const ajv = new Ajv2020({ strict: false, formats: { email: /@/, date: /^\d{4}-\d\d-\d\d$/ } });

const object = (properties: object, more: object = {}) => ({
  type: 'object',
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...more,
});
const tree = object({ value: { type: 'integer' }, children: { type: 'array', items: { $ref: '#' } } });

const schemas: [string, object | boolean][] = [
  ['anything', {}],
  ['true', true],
  ['an object without properties', { type: 'object' }],
  ['nested objects', object({ a: object({ b: object({ c: { type: 'boolean' } }) }) })],
  ['only what is required', { type: 'object', properties: { a: { type: 'string' }, b: false }, required: ['a'] }],
  [
    'enum and const',
    object({ a: { enum: ['x', 2, null] }, b: { const: { deep: [1] } }, c: { type: 'string', const: 'c' } }),
  ],
  ['a nullable by a list of types', object({ a: { type: ['null', 'string'] } })],
  ['anyOf with a null', object({ a: { anyOf: [{ type: 'null' }, { type: 'string' }] } })],
  [
    'anyOf beside properties',
    { ...object({ kind: { type: 'string' } }), anyOf: [{ properties: { kind: { const: 'a' } } }] },
  ],
  ['oneOf', { oneOf: [object({ a: { type: 'number' } }), object({ b: { type: 'number' } })] }],
  ['allOf', { allOf: [{ type: 'object', properties: { a: { type: 'null' } }, required: ['a'] }, { required: ['b'] }] }],
  [
    'allOf with a reference',
    { allOf: [{ $ref: '#/$defs/a' }], $defs: { a: object({ a: { type: 'integer', minimum: 7 } }) } },
  ],
  ['$defs', { ...object({ p: { $ref: '#/$defs/a~1b%20c' } }), $defs: { 'a/b c': object({ x: { type: 'number' } }) } }],
  ['definitions', { ...object({ p: { $ref: '#/definitions/p' } }), definitions: { p: { type: 'integer' } } }],
  ['a recursive tree', tree],
  ['a linked list', { ...object({ next: { anyOf: [{ $ref: '#' }, { type: 'null' }] } }) }],
  ['an optional recursion', { type: 'object', properties: { self: { $ref: '#' } } }],
  [
    'lists with bounds',
    object({ a: { type: 'array', minItems: 3, items: { type: 'integer' } }, b: { type: 'array', maxItems: 0 } }),
  ],
  ['a tuple', { type: 'array', prefixItems: [{ type: 'string' }, { type: 'boolean' }], items: false, minItems: 2 }],
  [
    'integers with bounds',
    object({ a: { type: 'integer', minimum: 5, maximum: 5 }, b: { type: 'integer', exclusiveMaximum: 0 } }),
  ],
  [
    'numbers with bounds',
    object({ a: { type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 0.5 }, b: { multipleOf: 7, minimum: 8 } }),
  ],
  ['lengths', object({ a: { type: 'string', minLength: 20 }, b: { type: 'string', maxLength: 3 } })],
  ['formats', object({ a: { type: 'string', format: 'email' }, b: { type: 'string', format: 'date' } })],
  ['minProperties', { type: 'object', minProperties: 2, additionalProperties: { type: 'integer' } }],
  [
    'a property called __proto__',
    JSON.parse('{"type":"object","properties":{"__proto__":{"type":"integer"}},"required":["__proto__"]}'),
  ],
];

test.each(schemas)('the value for %s validates', (_name, schema) => {
  const value = JSON.parse(JSON.stringify(valueForSchema(schema)));
  const validate = ajv.compile(schema);
  expect(validate(value), JSON.stringify({ value, errors: validate.errors })).toBe(true);
});

test.each([
  ['an infinite object', object({ self: { $ref: '#' } })],
  ['a reference to itself', { $ref: '#' }],
  ['a loop of references', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }],
  ['a loop within allOf', { allOf: [{ $ref: '#' }] }],
  ['false', false],
  ['a reference to nowhere', { $ref: '#/$defs/none' }],
  ['a remote reference', { $ref: 'https://example.com/schema' }],
  ['an endless array', { type: 'array', minItems: 1e9, items: { type: 'null' } }],
  ['an endless text', { type: 'string', minLength: 1e9 }],
  ['an endless object', { type: 'object', minProperties: 1e9 }],
  [
    'doubling',
    {
      $ref: '#/$defs/d0',
      // The last one is finite: only its size is wrong.
      $defs: Object.fromEntries(
        Array.from({ length: 21 }, (_, i) => [
          `d${i}`,
          i === 20 ? { type: 'null' } : object({ a: { $ref: `#/$defs/d${i + 1}` }, b: { $ref: `#/$defs/d${i + 1}` } }),
        ]),
      ),
    },
  ],
  ['depth', Array.from({ length: 1_000 }).reduce<object>((inner) => object({ a: inner }), { type: 'null' })],
])('%s is refused, at once', (_name, schema) => {
  expect(() => valueForSchema(schema)).toThrow(/Invalid schema/);
});

const names = Array.from({ length: 5_000 }, (_, i) => `property${i}`);
const wide = { properties: Object.fromEntries(names.map((name) => [name, true])) };
const parts = Array.from({ length: 1_000 }, () => ({ $ref: '#/$defs/a' }));

test.each<[string, object]>([
  ['many parts with many properties', { allOf: parts, $defs: { a: wide } }],
  ['many parts that require much', { allOf: parts, $defs: { a: { required: names } } }],
  ['many alternatives beside many properties', { ...wide, anyOf: names.map(() => ({ $ref: '#/anyOf/0' })) }],
  ['many items with many keywords', { minItems: 2_000, items: { $ref: '#/$defs/a' }, $defs: { a: wide.properties } }],
  ['many items of a long text', { minItems: 2_000, items: { const: 'x'.repeat(100_000) } }],
  ['many items with a long name', { minItems: 2_000, items: { required: ['x'.repeat(100_000)] } }],
  [
    'many items by a long reference',
    { minItems: 2_000, items: { $ref: `#/${'x'.repeat(100_000)}` }, ['x'.repeat(100_000)]: {} },
  ],
])('%s are refused before the event loop has been held for long', (_name, schema) => {
  // Of the processor, which others may be using.
  const before = process.threadCpuUsage();
  expect(() => valueForSchema(schema)).toThrow('its smallest value is too large');
  expect(process.threadCpuUsage(before).user).toBeLessThan(1_000_000);
});

test("OpenAI's largest schemas are answered: 5,000 properties, each of which may be null, and an enum of 1,000 values", () => {
  const kind = { type: 'string', title: 'Kind', description: 'What it is', enum: names.slice(0, 1_000) };
  const property = {
    anyOf: [{ $ref: '#/$defs/kind' }, { type: 'null' }],
    title: 'Property',
    description: 'One of many',
  };
  const properties = Object.fromEntries(names.map((name) => [name, property]));
  const schema = { type: 'object', properties, required: names, additionalProperties: false, $defs: { kind } };
  expect(valueForSchema(schema)).toEqual(Object.fromEntries(names.map((name) => [name, 'property0'])));
});

test.each(['^\\d+$', '^(\\w+)+$', '('])(
  'the pattern %s is ignored, since a client may write one that takes for ever',
  (pattern) => {
    expect(valueForSchema({ type: 'string', pattern })).toBe('sandbox');
  },
);

test('a chat answer follows its json_schema', async () => {
  const ask = (response_format: object) =>
    askJson(Operation.CHAT_COMPLETIONS, {
      model: 'sandbox-chat',
      messages: [{ role: 'user', content: 'x' }],
      response_format,
    });
  const answer = await ask({ type: 'json_schema', json_schema: { name: 'tree', strict: true, schema: tree } });
  expect(ajv.validate(tree, JSON.parse(answer.choices[0].message.content))).toBe(true);
  const plain = await ask({ type: 'json_object' });
  expect(JSON.parse(plain.choices[0].message.content)).toMatchObject({ sandbox: true });
});
