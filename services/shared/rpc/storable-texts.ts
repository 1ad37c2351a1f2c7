import { type DescField, type DescMessage, type Message, ScalarType } from '@bufbuild/protobuf';
import { UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { isStorableText } from '../safe-text.ts';

type Values = Readonly<Record<string, unknown>>;
type Choice = { case?: string; value?: unknown };

/**
 * The path of the first field whose text Postgres could not keep; undefined when there is none. What a batch of usage
 * events holds is left out: each of them is judged by itself.
 */
export function unstorableField(schema: DescMessage, message: Message): string | undefined {
  for (const field of fieldsToSearch(schema)) {
    const value = valueIn(field, message as unknown as Values);
    if (value === undefined) continue;
    const place = field.fieldKind === 'list' ? among(field, value as readonly unknown[]) : within(field, value);
    if (place !== undefined) return field.name + place;
  }
  return undefined;
}

function among(field: DescField, values: readonly unknown[]): string | undefined {
  for (const [index, value] of values.entries()) {
    const place = within(field, value);
    if (place !== undefined) return `[${index}]${place}`;
  }
  return undefined;
}

/** Where in one value such a text stands: empty for the value itself. */
function within(field: DescField, value: unknown): string | undefined {
  if (field.fieldKind === 'map') {
    const texts = Object.entries(value as Values).flat();
    return texts.every((text) => typeof text !== 'string' || isStorableText(text)) ? undefined : '';
  }
  if (field.message === undefined) return isStorableText(value as string) ? undefined : '';
  const inner = unstorableField(field.message, value as Message);
  return inner === undefined ? undefined : `.${inner}`;
}

function valueIn(field: DescField, message: Values): unknown {
  if (field.oneof === undefined) return message[field.localName];
  const chosen = message[field.oneof.localName] as Choice;
  return chosen.case === field.localName ? chosen.value : undefined;
}

/** The texts of a message and what may hold some. */
const searched = new Map<DescMessage, readonly DescField[]>();

function fieldsToSearch(schema: DescMessage): readonly DescField[] {
  let fields = searched.get(schema);
  if (fields === undefined) {
    fields = schema.fields.filter(
      ({ fieldKind, scalar, message }) =>
        fieldKind === 'map' || scalar === ScalarType.STRING || (message !== undefined && message !== UsageEventSchema),
    );
    searched.set(schema, fields);
  }
  return fields;
}
