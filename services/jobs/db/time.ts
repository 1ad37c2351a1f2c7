import type { Clock } from '#shared/clock.ts';

/**
 * How far a moved clock is from the machine's own, in milliseconds. Statements add it to the database's time, so that all workers
 * reckon leases by one clock, and a test can still move it.
 */
export const clockShiftMs = (clock: Pick<Clock, 'now'>): number => {
  const shift = clock.now() - Date.now();
  return Math.abs(shift) < 5 ? 0 : shift;
};

/** The present in SQL; the parameter of this number is clockShiftMs. */
export const presentSql = (parameter: number): string =>
  `(clock_timestamp() + $${parameter}::float8 * interval '1 millisecond')`;

/** Whether a job has not expired, in SQL; the parameter of this number is clockShiftMs. To its owner one that has is gone. */
export const unexpiredSql = (parameter: number): string =>
  `(expires_at is null or expires_at > ${presentSql(parameter)})`;
