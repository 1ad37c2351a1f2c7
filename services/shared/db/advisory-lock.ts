import { run, type StatementRunner } from './run.ts';

/**
 * Takes an advisory lock until the transaction ends: whoever takes the same one waits. Locks of all services are distinguished only by
 * `name`.
 */
export async function takeAdvisoryLock(tx: StatementRunner, name: string): Promise<void> {
  await run(tx, 'select pg_advisory_xact_lock(hashtextextended(?, 0))', [name]);
}

/** Takes an advisory lock without waiting; returns whether it was free. */
export async function tryAdvisoryLock(tx: StatementRunner, name: string): Promise<boolean> {
  const [row] = await run<{ taken: boolean }>(tx, 'select pg_try_advisory_xact_lock(hashtextextended(?, 0)) as taken', [
    name,
  ]);
  return row!.taken;
}
