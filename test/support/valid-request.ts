import { create, type DescEnum, type DescField, type DescMessage, type Message, ScalarType } from '@bufbuild/protobuf';
import { type Path, type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { createValidator } from '@bufbuild/protovalidate';

const validator = createValidator();

/** Tried one after another for a text that breaks a rule. */
const texts = [
  '0198a000-0000-7000-8000-000000000001',
  'somebody@example.com',
  'a-name',
  'a_name',
  'Correct-horse-1',
  'https://example.com/x',
  '2026-11',
  '2026-11-01',
  '0'.repeat(64),
  'GIFT-2026-11',
];
const numbers = [1, 2, 10, 100, 1_000, 60_000, 1_000_000];
const byteLengths = [1, 16, 32, 64];

/** A request that obeys the rules of its proto: starts empty, and gives each field that breaks one the next candidate. */
export function validRequest(schema: DescMessage, start: object = {}): Message {
  const request = create(schema, start as never);
  const tried = new Map<string, number>();
  for (let round = 0; round < 40; round++) {
    const result = validator.validate(schema, request);
    if (result.kind === 'valid') return request;
    if (result.kind === 'error') throw result.error;
    for (const { field } of result.violations) {
      const name = JSON.stringify(field.map((step) => ('name' in step ? step.name : step)));
      const attempt = tried.get(name) ?? 0;
      tried.set(name, attempt + 1);
      if (!amend(reflect(schema, request), field, attempt)) {
        throw new Error(`${schema.typeName}: nothing can be put at ${name}; give the test a request`);
      }
    }
  }
  throw new Error(`${schema.typeName}: no candidate obeys the rules of ${[...tried.keys()]}; give the test a request`);
}

function amend(message: ReflectMessage, path: Path, attempt: number): boolean {
  const [step, ...rest] = path;
  if (step === undefined) return false;
  if (step.kind === 'oneof') return put(message, step.fields[0]!, attempt);
  if (step.kind !== 'field') return false;
  if (step.fieldKind === 'message' && rest[0]?.kind === 'field') {
    if (!message.isSet(step)) message.set(step, reflect(step.message));
    return amend(message.get(step), rest, attempt);
  }
  if (step.fieldKind === 'list' && rest[0]?.kind === 'list_sub') {
    const list = message.get(step);
    const { index } = rest[0];
    if (step.listKind === 'message') return amend(list.get(index) as ReflectMessage, rest.slice(1), attempt);
    list.set(index, candidate(step, attempt) as never);
    return true;
  }
  return put(message, step, attempt);
}

function put(message: ReflectMessage, field: DescField, attempt: number): boolean {
  if (field.fieldKind === 'list') {
    message
      .get(field)
      .add((field.listKind === 'message' ? reflect(field.message) : candidate(field, attempt)) as never);
    return true;
  }
  if (field.fieldKind === 'map') return false;
  message.set(field, (field.fieldKind === 'message' ? reflect(field.message) : candidate(field, attempt)) as never);
  return true;
}

type Single = { scalar?: ScalarType; enum?: DescEnum };

function candidate({ scalar, enum: values }: Single, attempt: number): unknown {
  if (values !== undefined) return values.values[(attempt + 1) % values.values.length]!.number;
  if (scalar === ScalarType.STRING) return texts[attempt % texts.length];
  if (scalar === ScalarType.BOOL) return true;
  if (scalar === ScalarType.BYTES) return new Uint8Array(byteLengths[attempt % byteLengths.length]!).fill(7);
  const number = numbers[attempt % numbers.length]!;
  const isWide = [ScalarType.INT64, ScalarType.UINT64, ScalarType.SINT64, ScalarType.FIXED64].includes(scalar!);
  return isWide ? BigInt(number) : number;
}
