import type { Clock } from '#shared/clock.ts';

/**
 * The difference between a moved clock and the machine's own, in milliseconds. Statements add it to the database's time, so that all
 * workers measure leases by one clock and a test can still move it.
 */
export const clockShiftMs = (clock: Pick<Clock, 'now'>): number => {
  const shift = clock.now() - Date.now();
  return Math.abs(shift) < 5 ? 0 : shift;
};

/** The current time in SQL; the parameter with this number is clockShiftMs. */
export const presentSql = (parameter: number): string =>
  `(clock_timestamp() + $${parameter}::float8 * interval '1 millisecond')`;

/**
 * Whether the time in a column, which is written at most `aheadMsMax` ahead, has come, or was written before the database's clock was set
 * back. The parameter with this number is clockShiftMs.
 */
export const hasComeSql = (column: string, parameter: number, aheadMsMax: number): string =>
  `(${column} <= ${presentSql(parameter)} or ${predatesSetBackSql(column, parameter, aheadMsMax)})`;

/** Whether the time in a column lies further ahead than it is ever written: the database's clock was set back since. */
export const predatesSetBackSql = (column: string, parameter: number, aheadMsMax: number): string =>
  `${column} > ${presentSql(parameter)} + interval '${aheadMsMax} milliseconds'`;

/** The current time, taken once for a statement: only such a moment can be looked up in an index. */
export const momentSql = (parameter: number): string => `(select ${presentSql(parameter)})`;

/** Whether a job has not expired, in SQL; the parameter with this number is clockShiftMs. To its owner an expired job is gone. */
export const unexpiredSql = (parameter: number): string =>
  `(expires_at is null or expires_at > ${presentSql(parameter)})`;
