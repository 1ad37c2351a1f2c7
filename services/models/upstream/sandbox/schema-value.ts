import { isObject } from '#shared/is-object.ts';
import { Refusal } from './answer.ts';
import type { JsonObject } from './fields.ts';
import { numberFor, stringFor } from './schema-scalars.ts';

/** Values made for one schema at most; a schema can be small and its value astronomically large. */
const valuesMax = 5_000;
const depthMax = 64;

/** A value that can be made; null where every value of a schema would be infinite. */
type Made = { value: unknown } | null;

type Making = { root: unknown; values: number };

/**
 * A small value that validates against a JSON schema: required properties only, one item in an array when it may have one.
 * Not understood, hence ignored: `not`, `if`, `dependent*`, `contains`, `uniqueItems`, `$dynamicRef`, remote `$ref`, and
 * `pattern`, which would run a program of the client's on the event loop, for as long as it likes.
 */
export function valueForSchema(schema: unknown): unknown {
  const made = make({ root: schema, values: 0 }, schema, [], 0);
  if (made === null) throw schemaRefusal('no finite value satisfies it');
  return made.value;
}

const schemaRefusal = (why: string): Refusal =>
  new Refusal(`Invalid schema: ${why}.`, { param: 'response_format', code: 'invalid_value' });

function make(making: Making, schema: unknown, openRefs: readonly string[], depth: number): Made {
  if (++making.values > valuesMax || depth > depthMax) throw schemaRefusal('its smallest value is too large');
  if (schema === false) return null;
  if (!isObject(schema)) return { value: 'sandbox' };
  const again = (part: unknown, refs = openRefs) => make(making, part, refs, depth + 1);

  if (typeof schema.$ref === 'string') {
    // A reference inside itself has no finite value here; an optional property, an empty array or another alternative ends it.
    if (openRefs.includes(schema.$ref)) return null;
    const { $ref, ...rest } = schema;
    return again(mergeSchemas([resolve(making.root, $ref), rest]), [...openRefs, $ref]);
  }
  if ('const' in schema) return { value: schema.const };
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return { value: schema.enum[0] };
  if (Array.isArray(schema.allOf)) {
    const { allOf, ...rest } = schema;
    return again(mergeSchemas([rest, ...allOf.map((part) => dereference(making.root, part))]));
  }
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(alternatives)) {
    const { anyOf: _anyOf, oneOf: _oneOf, ...rest } = schema;
    for (const alternative of alternatives) {
      const made = again(isObject(alternative) ? mergeSchemas([rest, alternative]) : alternative);
      if (made !== null) return made;
    }
    return null;
  }
  switch (typeOf(schema)) {
    case 'object':
      return makeObject(schema, again);
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
      return { value: stringFor(schema) };
  }
}

function makeObject(schema: JsonObject, again: (part: unknown) => Made): Made {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required = Array.isArray(schema.required) ? schema.required.filter((name) => typeof name === 'string') : [];
  const others = isObject(schema.additionalProperties) ? schema.additionalProperties : { type: 'string' };
  const names = new Set<string>(required);
  const wanted = typeof schema.minProperties === 'number' ? Math.min(schema.minProperties, valuesMax) : 0;
  for (const name of Object.keys(properties)) if (names.size < wanted) names.add(name);
  for (let i = 1; names.size < wanted; i++) names.add(`property${i}`);
  const entries: [string, unknown][] = [];
  for (const name of names) {
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
function mergeSchemas(schemas: readonly unknown[]): JsonObject {
  const merged: JsonObject = {};
  for (const schema of schemas) {
    if (!isObject(schema)) continue;
    const properties = { ...(merged.properties as object), ...(schema.properties as object) };
    const required = [...((merged.required as unknown[]) ?? []), ...((schema.required as unknown[]) ?? [])];
    Object.assign(merged, schema);
    if (Object.keys(properties).length > 0) merged.properties = properties;
    if (required.length > 0) merged.required = required;
  }
  return merged;
}

/** Follows a part that is nothing but a reference, so that `allOf` can be merged. */
const dereference = (root: unknown, part: unknown): unknown =>
  isObject(part) && typeof part.$ref === 'string'
    ? mergeSchemas([resolve(root, part.$ref), { ...part, $ref: undefined }])
    : part;

/** A JSON pointer into the schema (RFC 6901); remote references are refused. */
function resolve(root: unknown, ref: string): unknown {
  if (!ref.startsWith('#')) throw schemaRefusal(`the reference '${ref}' is not inside the schema`);
  let target = root;
  for (const part of ref.slice(1).split('/').slice(1)) {
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
