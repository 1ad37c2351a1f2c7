import { type DescField, type DescMessage, type Message, ScalarType } from '@bufbuild/protobuf';
import { type Timestamp, TimestampSchema, timestampMs } from '@bufbuild/protobuf/wkt';
import { UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { isStorableText } from '../safe-text.ts';

/** Where in a message a value is, and what is wrong with it. */
type Unstorable = { path: string; fault: string };
type Values = Readonly<Record<string, unknown>>;
type Choice = { case?: string; value?: unknown };

/**
 * The first value that Postgres could not store, or only in changed form; undefined when there is none. The contents of a batch of usage
 * events are exempt: each event is judged separately.
 */
export function unstorableIn(schema: DescMessage, message: Message): Unstorable | undefined {
  for (const field of fieldsToSearch(schema)) {
    const value = valueIn(field, message as unknown as Values);
    if (value === undefined) continue;
    const found = field.fieldKind === 'list' ? among(field, value as readonly unknown[]) : within(field, value);
    if (found !== undefined) return { ...found, path: field.name + found.path };
  }
  return undefined;
}

function among(field: DescField, values: readonly unknown[]): Unstorable | undefined {
  for (const [index, value] of values.entries()) {
    const found = within(field, value);
    if (found !== undefined) return { ...found, path: `[${index}]${found.path}` };
  }
  return undefined;
}

/** In one value, or in the names and scalars of a map; the path is empty for the value itself. */
function within(field: DescField, value: unknown): Unstorable | undefined {
  if (field.message !== undefined && field.message !== TimestampSchema) {
    const found = unstorableIn(field.message, value as Message);
    return found && { ...found, path: `.${found.path}` };
  }
  const single = field.fieldKind === 'map' ? Object.entries(value as Values).flat() : [value];
  const fault = single.map(faultOf).find((fault) => fault !== undefined);
  return fault === undefined ? undefined : { path: '', fault };
}

const int64Max = 2n ** 63n - 1n;
/** The range of Timestamp itself (google/protobuf/timestamp.proto), years 1 to 9999, here in the milliseconds that are stored. */
const timeMsMin = -62_135_596_800_000;
const timeMsMax = 253_402_300_799_999;

function faultOf(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return isStorableText(value) ? undefined : 'must be well-formed Unicode without NUL characters';
    case 'bigint':
      return value <= int64Max ? undefined : `must be at most ${int64Max}`;
    case 'object':
      return isStorableTime(value as Timestamp) ? undefined : 'must be a time from the year 1 to 9999';
    default:
      return undefined;
  }
}

function isStorableTime(time: Timestamp): boolean {
  const ms = timestampMs(time);
  return ms >= timeMsMin && ms <= timeMsMax && time.nanos >= 0 && time.nanos < 1_000_000_000;
}

function valueIn(field: DescField, message: Values): unknown {
  if (field.oneof === undefined) return message[field.localName];
  const chosen = message[field.oneof.localName] as Choice;
  return chosen.case === field.localName ? chosen.value : undefined;
}

/** The fields of each message that are such values, or may contain some. */
const searched = new Map<DescMessage, readonly DescField[]>();

function fieldsToSearch(schema: DescMessage): readonly DescField[] {
  let fields = searched.get(schema);
  if (fields === undefined) {
    fields = schema.fields.filter(isToBeSearched);
    searched.set(schema, fields);
  }
  return fields;
}

function isToBeSearched({ fieldKind, scalar, message }: DescField): boolean {
  if (fieldKind === 'map') return message === undefined;
  if (message !== undefined) return message !== UsageEventSchema;
  return scalar === ScalarType.STRING || scalar === ScalarType.UINT64;
}
