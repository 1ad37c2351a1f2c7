import { Refusal } from './answer.ts';
import type { JsonObject } from './fields.ts';

const numberOr = <T>(value: unknown, otherwise: T): number | T => (typeof value === 'number' ? value : otherwise);

/** A number within the schema's bounds; the nearest guess when they contradict each other. */
export function numberFor(schema: JsonObject, whole: boolean): number {
  const above = numberOr(schema.exclusiveMinimum, Number.NEGATIVE_INFINITY);
  const below = numberOr(schema.exclusiveMaximum, Number.POSITIVE_INFINITY);
  const low = Math.max(numberOr(schema.minimum, Number.NEGATIVE_INFINITY), above);
  const high = Math.min(numberOr(schema.maximum, Number.POSITIVE_INFINITY), below);
  const step = Math.abs(numberOr(schema.multipleOf, 0)) || 1;
  const firstUp = Math.ceil(low / step) * step;
  const firstDown = Math.floor(high / step) * step;
  const candidates = [step, 0, firstUp, firstUp + step, firstDown, firstDown - step];
  if (!whole && schema.multipleOf === undefined) candidates.push((low + high) / 2);
  const fits = (value: number) =>
    Number.isFinite(value) &&
    value >= low &&
    value <= high &&
    value !== above &&
    value !== below &&
    (!whole || Number.isInteger(value));
  return candidates.find(fits) ?? 1;
}

const formats: Record<string, string> = {
  'date-time': '2026-01-01T00:00:00Z',
  date: '2026-01-01',
  time: '00:00:00Z',
  duration: 'P1D',
  email: 'sandbox@example.com',
  hostname: 'sandbox.example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/sandbox',
  uuid: '00000000-0000-4000-8000-000000000000',
};

/** The longest text that a schema may ask for, in characters. */
const lengthMax = 10_000;

/** A text of the schema's format or length. */
export function stringFor(schema: JsonObject): string {
  const least = numberOr(schema.minLength, 0);
  const most = numberOr(schema.maxLength, Number.POSITIVE_INFINITY);
  if (least > lengthMax) {
    throw new Refusal('Invalid schema: its smallest value is too large.', {
      param: 'response_format',
      code: 'invalid_value',
    });
  }
  if (typeof schema.format === 'string' && Object.hasOwn(formats, schema.format)) return formats[schema.format]!;
  return 'sandbox'.padEnd(least, '-').slice(0, most);
}
