import { isObject } from '#shared/is-object.ts';
import { Refusal } from './answer.ts';

export type JsonObject = Record<string, unknown>;

/** The body as a JSON object; anything else is a 400. */
export function parseJsonObject(body: Buffer): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    throw new Refusal('We could not parse the JSON body of your request.');
  }
  if (!isObject(value)) throw new Refusal('The body must be a JSON object.');
  return value;
}

const refuse = (name: string, expectation: string): never => {
  throw new Refusal(`Invalid value for '${name}': expected ${expectation}.`, { param: name, code: 'invalid_value' });
};

/** An optional number; null counts as absent, as in every field below. */
export function numberField(json: JsonObject, name: string, min: number, max: number): number | undefined {
  const value = json[name] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || value < min || value > max) return refuse(name, `a number from ${min} to ${max}`);
  return value;
}

/** An optional integer. */
export function integerField(json: JsonObject, name: string, min: number, max: number): number | undefined {
  const value = numberField(json, name, min, max);
  if (value !== undefined && !Number.isInteger(value)) return refuse(name, 'an integer');
  return value;
}

/** A flag that is false when absent. */
export function flagField(json: JsonObject, name: string): boolean {
  const value = json[name] ?? false;
  return typeof value === 'boolean' ? value : refuse(name, 'a boolean');
}

/** A required, non-empty text. */
export function textField(json: JsonObject, name: string): string {
  const value = json[name] ?? '';
  if (value === '') throw new Refusal(`Missing required parameter: '${name}'.`, { param: name });
  return typeof value === 'string' ? value : refuse(name, 'a string');
}

/** One of a list of words; the first is the default. */
export function wordField<Word extends string>(
  json: JsonObject,
  name: string,
  words: readonly [Word, ...Word[]],
): Word {
  const value = json[name] ?? words[0];
  return words.find((word) => word === value) ?? refuse(name, `one of ${words.map((word) => `'${word}'`).join(', ')}`);
}

/** `stop`: one sequence or up to four. */
export function stopField(json: JsonObject): string[] {
  const value = json.stop ?? [];
  const sequences = Array.isArray(value) ? value : [value];
  if (sequences.length > 4 || sequences.some((sequence) => typeof sequence !== 'string')) {
    return refuse('stop', 'a string or an array of at most four strings');
  }
  return sequences.filter((sequence) => sequence !== '');
}

/** Whether a stream ends with a usage chunk. */
export const includesUsage = (json: JsonObject): boolean =>
  isObject(json.stream_options) && json.stream_options.include_usage === true;
