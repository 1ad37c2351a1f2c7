import { ErrorReason, GatewayError } from '#shared/errors.ts';
import { messageOf } from '#shared/message-of.ts';

/** SQLSTATE of a pg error, or of one inside an ORM error; a Node error's code otherwise. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === 'string' ? code : undefined;
}

/** Two transactions collided, and this one was undone: it may simply be run again. */
export const isConflict = (error: unknown): boolean => ['40P01', '40001'].includes(sqlState(error) ?? '');

/** A UNIQUE constraint rejected a row; with a name, only that constraint counts. */
export const isUniqueViolation = (error: unknown, constraint?: string): boolean =>
  sqlState(error) === '23505' &&
  (constraint === undefined || (error as { constraint?: string }).constraint === constraint);

/** A lock was not obtained within `lock_timeout`. */
export const isLockTimeout = (error: unknown): boolean =>
  sqlState(error instanceof GatewayError ? error.details.cause : error) === '55P03';

/** SQLSTATE of a write to a server or database that accepts none: a standby, or one whose provider found its disk full. */
export const readOnlyState = '25006';

/**
 * PostgreSQL documentation, appendix A: no connection, no resources, operator intervention, a failing disk, no writes, a lock not obtained
 * in time.
 */
const outOfReachStates = new RegExp(`^(08...|53...|57...|58030|${readOnlyState}|55P03|25P03|25P04)$`);
/** No connection, no name, no route; or no descriptor, port or memory for it on this machine. */
const outOfReachErrnos =
  /^(ECONN\w+|ENOENT|ENOTFOUND|EAI_\w+|EPIPE|ETIMEDOUT|E(HOST|NET)(UNREACH|DOWN)|EACCES|EPERM|EMFILE|ENFILE|ENOBUFS|ENOMEM|EADDRNOTAVAIL|EAGAIN)$/;
/** pg reports these without a code. */
const outOfReachTexts =
  /^(Connection terminated|timeout expired|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|The database does not answer|Query read timeout|Connection ended)/;

/** Whether a query failed because the database could not be reached or had no capacity. */
export function isOutOfReach(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // A host with several addresses fails once for each; and the ORM copies the error that it wraps.
  const { errors } = error as Partial<AggregateError>;
  if (errors?.some(isOutOfReach)) return true;
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (code !== undefined && outOfReachStates.test(code)) return true;
  if (code !== undefined && syscall !== undefined && outOfReachErrnos.test(code)) return true;
  return outOfReachTexts.test(error.message) || (error.cause !== undefined && isOutOfReach(error.cause));
}

/** States of a database that is there, but did not give this one transaction what it waited for. */
const lateStates = /^(40001|40P01|55P03|57014|25P03|25P04)$/;

/** Whether a transaction failed as any other would at the moment, since the database is out of reach or takes no writes. */
export function isAway(error: unknown): boolean {
  const cause = error instanceof GatewayError ? error.details.cause : error;
  return isOutOfReach(cause) && !lateStates.test(sqlState(cause) ?? '');
}

/** How long a client should wait while the database is out of reach, in milliseconds. */
const retryAfterMs = 1_000;

/** The error that callers see of a failed query: OVERLOADED when trying later may help, otherwise the original. */
export function databaseError(error: unknown): unknown {
  if (error instanceof GatewayError || !(isOutOfReach(error) || isConflict(error))) return error;
  return new GatewayError(ErrorReason.OVERLOADED, 'The gateway is overloaded or restarting. Try again shortly.', {
    internal: `the database is out of reach or too busy: ${messageOf(error)}`,
    retryAfterMs,
    cause: error,
  });
}
