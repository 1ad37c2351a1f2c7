import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf';

type InitOf<Schema extends DescMessage> = Omit<MessageInitShape<Schema>, '$typeName' | '$unknown'>;

/**
 * A message with each of its own fields, though one may be undefined: a field that is forgotten does not compile. Messages inside it are not
 * checked.
 */
export type WholeMessage<Schema extends DescMessage> = {
  [Field in keyof Required<InitOf<Schema>>]: InitOf<Schema>[Field];
};

/** How the public API spells a message's field: `spend_cap_usd` for `spendCapNanoUsd`. */
export type PublicName<Field extends string> = Field extends `${infer Amount}NanoUsd`
  ? SnakeCase<`${Amount}Usd`>
  : SnakeCase<Field>;

type SnakeCase<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${SnakeCase<Rest>}`
  : Name;
