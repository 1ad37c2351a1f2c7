import { run, type StatementRunner } from './run.ts';

/** Everybody else who takes the same turn waits until the transaction ends. Turns of all services are distinguished only by `subject`. */
export async function takeTurn(tx: StatementRunner, subject: string): Promise<void> {
  await run(tx, 'select pg_advisory_xact_lock(hashtextextended(?, 0))', [subject]);
}

/** Takes a turn without waiting for others; returns whether it was free. */
export async function tryTurn(tx: StatementRunner, subject: string): Promise<boolean> {
  const [row] = await run<{ taken: boolean }>(tx, 'select pg_try_advisory_xact_lock(hashtextextended(?, 0)) as taken', [
    subject,
  ]);
  return row!.taken;
}
