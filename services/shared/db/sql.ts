import type pg from 'pg';

/** What runs statements: a connection inside a transaction, or the pool. int8 is a bigint, date is text. */
export type Sql = Pick<pg.ClientBase, 'query'>;

/**
 * An array of ids, numbers, booleans or ISO dates in the form that Postgres reads. pg would quote and escape each element, which for a
 * batch of charges costs more than all arithmetic; none of these can contain a character that needs it.
 */
export const plainArray = (values: readonly (string | number | bigint | boolean | null)[]): string =>
  `{${values.map((value) => value ?? 'NULL').join(',')}}`;
