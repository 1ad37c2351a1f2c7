import { isObject } from '#shared/is-object.ts';
import { Refusal } from './answer.ts';
import type { JsonObject } from './fields.ts';
import { numberFor, stringFor } from './schema-scalars.ts';

/**
 * What may be spent on the values of one answer: one for each value, and each keyword, name and item that is read for it, and one for each
 * 16 characters of text. A schema can be small and its value astronomically large, or take hours to make; this much takes some 0.2 s at
 * most. The largest schemas that OpenAI takes, of 5,000 properties, need up to 30 for each.
 */
const effortMax = 200_000;
const charactersPerEffort = 16;
const depthMax = 64;

/** What is left to spend. */
export type Effort = { left: number };

/** For all values of one answer together. */
export const effortForAnswer = (): Effort => ({ left: effortMax });

/** A value that can be made; null where every value of a schema would be infinite. */
type Made = { value: unknown } | null;

type Making = { root: unknown; effort: Effort };

/**
 * A small value that validates against a JSON schema: required properties only, one item in an array when it may have one.
 * Not understood, hence ignored: `not`, `if`, `dependent*`, `contains`, `uniqueItems`, `$dynamicRef`, remote `$ref`, and
 * `pattern`, which would run a program of the client's on the event loop, for as long as it likes.
 */
export function valueForSchema(schema: unknown, effort: Effort = effortForAnswer()): unknown {
  const made = make({ root: schema, effort }, schema, [], 0);
  if (made === null) throw schemaRefusal('no finite value satisfies it');
  return made.value;
}

const schemaRefusal = (why: string): Refusal =>
  new Refusal(`Invalid schema: ${why}.`, { param: 'response_format', code: 'invalid_value' });

function spend({ effort }: Making, amount: number): void {
  effort.left -= amount;
  if (effort.left < 0) throw tooLarge();
}

const spendText = (making: Making, text: string): void => spend(making, Math.ceil(text.length / charactersPerEffort));

const tooLarge = (): Refusal => schemaRefusal('its smallest value is too large');

function make(making: Making, schema: unknown, openRefs: readonly string[], depth: number): Made {
  if (depth > depthMax) throw tooLarge();
  spend(making, isObject(schema) ? 1 + sizeOf(schema) : 1);
  if (schema === false) return null;
  if (!isObject(schema)) return { value: 'sandbox' };
  const again = (part: unknown, refs = openRefs) => make(making, part, refs, depth + 1);
  const merge = (parts: readonly unknown[]) => mergeSchemas(making, parts);
  const copyOf = (value: unknown) => {
    spendText(making, JSON.stringify(value) ?? '');
    return { value };
  };

  if (typeof schema.$ref === 'string') {
    // A reference inside itself has no finite value here; an optional property, an empty array or another alternative ends it.
    if (openRefs.includes(schema.$ref)) return null;
    return again(dereference(making, schema), [...openRefs, schema.$ref]);
  }
  if ('const' in schema) return copyOf(schema.const);
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return copyOf(schema.enum[0]);
  if (Array.isArray(schema.allOf)) {
    const { allOf, ...rest } = schema;
    return again(merge([rest, ...allOf.map((part) => dereference(making, part))]));
  }
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(alternatives)) {
    const { anyOf: _anyOf, oneOf: _oneOf, ...rest } = schema;
    for (const alternative of alternatives) {
      const made = again(isObject(alternative) ? merge([rest, alternative]) : alternative);
      if (made !== null) return made;
    }
    return null;
  }
  switch (typeOf(schema)) {
    case 'object':
      return makeObject(making, schema, again);
    case 'array':
      return makeArray(schema, again);
    case 'number':
      return { value: numberFor(schema, false) };
    case 'integer':
      return { value: numberFor(schema, true) };
    case 'boolean':
      return { value: true };
    case 'null':
      return { value: null };
    default:
      return copyOf(stringFor(schema));
  }
}

/** How many keywords a schema has, and how many items and names are in those that are read whole. */
const sizeOf = (schema: JsonObject): number =>
  lengthOf(schema) + lengthOf(schema.properties) + lengthOf(schema.required) + lengthOf(schema.allOf);

const lengthOf = (held: unknown): number => (typeof held === 'object' && held !== null ? Object.keys(held).length : 0);

function makeObject(making: Making, schema: JsonObject, again: (part: unknown) => Made): Made {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : [];
  const others = isObject(schema.additionalProperties) ? schema.additionalProperties : { type: 'string' };
  const names = new Set<string>(required);
  const wanted = typeof schema.minProperties === 'number' ? Math.min(schema.minProperties, effortMax) : 0;
  for (const name of Object.keys(properties)) if (names.size < wanted) names.add(name);
  for (let i = 1; names.size < wanted; i++) names.add(`property${i}`);
  const entries: [string, unknown][] = [];
  for (const name of names) {
    spendText(making, name);
    const made = again(Object.hasOwn(properties, name) ? properties[name] : others);
    if (made === null) return null;
    entries.push([name, made.value]);
  }
  // fromEntries makes own properties, `__proto__` too.
  return { value: Object.fromEntries(entries) };
}

function makeArray(schema: JsonObject, again: (part: unknown) => Made): Made {
  const prefix = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  const least = typeof schema.minItems === 'number' ? schema.minItems : 0;
  const most = typeof schema.maxItems === 'number' ? schema.maxItems : Number.POSITIVE_INFINITY;
  const wanted = Math.min(most, Math.max(least, prefix.length, 1));
  const value: unknown[] = [];
  while (value.length < wanted) {
    const made = again(prefix[value.length] ?? schema.items);
    if (made === null) return value.length >= least ? { value } : null;
    value.push(made.value);
  }
  return { value };
}

function typeOf(schema: JsonObject): unknown {
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (type !== undefined) return type;
  if ('properties' in schema || 'required' in schema || 'additionalProperties' in schema) return 'object';
  if ('items' in schema || 'prefixItems' in schema || 'minItems' in schema) return 'array';
  if ('minimum' in schema || 'maximum' in schema || 'multipleOf' in schema) return 'number';
  return 'string';
}

/** One schema that asks for what all of them ask for; of contradicting keywords the later wins. */
function mergeSchemas(making: Making, schemas: readonly unknown[]): JsonObject {
  const merged: JsonObject = {};
  // A map, since a property may be called `__proto__`.
  const properties = new Map<string, unknown>();
  const required: unknown[] = [];
  for (const schema of schemas) {
    if (!isObject(schema)) continue;
    spend(making, sizeOf(schema));
    Object.assign(merged, schema);
    if (isObject(schema.properties))
      for (const [name, part] of Object.entries(schema.properties)) properties.set(name, part);
    if (Array.isArray(schema.required)) for (const name of schema.required) required.push(name);
  }
  if (properties.size > 0) merged.properties = Object.fromEntries(properties);
  if (required.length > 0) merged.required = required;
  return merged;
}

/** What a reference leads to, with what is asked for beside it; a part without a reference is left as it is. */
function dereference(making: Making, part: unknown): unknown {
  if (!isObject(part) || typeof part.$ref !== 'string') return part;
  const { $ref, ...rest } = part;
  const referred = resolve(making, $ref);
  return lengthOf(rest) === 0 ? referred : mergeSchemas(making, [referred, rest]);
}

/** A JSON pointer into the schema (RFC 6901); remote references are refused. */
function resolve(making: Making, ref: string): unknown {
  spendText(making, ref);
  if (!ref.startsWith('#')) throw schemaRefusal(`the reference '${ref}' is not inside the schema`);
  let target = making.root;
  const parts = ref.slice(1).split('/').slice(1);
  spend(making, parts.length);
  for (const part of parts) {
    const name = pointerName(part);
    const holder = target as JsonObject | unknown[] | null;
    if (typeof holder !== 'object' || holder === null || !Object.hasOwn(holder, name)) {
      throw schemaRefusal(`the reference '${ref}' leads nowhere`);
    }
    target = (holder as JsonObject)[name];
  }
  return target;
}

function pointerName(part: string): string {
  try {
    return decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~');
  } catch {
    return part;
  }
}
