import { type TSchema, Type } from 'typebox';

/** A field of an answer that is always there, and may be null. */
export const orNull = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()]);

/** A field of a request, or a whole body, that may be absent or null. */
export const nullable = <Schema extends TSchema>(schema: Schema) => Type.Optional(orNull(schema));
