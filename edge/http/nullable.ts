import { Type } from 'typebox';

/** A field, or a whole body, that may be absent or null. */
export const nullable = <Schema extends Parameters<typeof Type.Optional>[0]>(schema: Schema) =>
  Type.Optional(Type.Union([schema, Type.Null()]));
