import { run, type StatementRunner } from './run.ts';

/** Whoever takes the same turn waits until the transaction ends. All services' turns are told apart by `subject` alone. */
export async function takeTurn(tx: StatementRunner, subject: string): Promise<void> {
  await run(tx, 'select pg_advisory_xact_lock(hashtextextended(?, 0))', [subject]);
}

/** The same for whoever must not wait; answers whether it is their turn. */
export async function tryTurn(tx: StatementRunner, subject: string): Promise<boolean> {
  const [row] = await run<{ taken: boolean }>(tx, 'select pg_try_advisory_xact_lock(hashtextextended(?, 0)) as taken', [
    subject,
  ]);
  return row!.taken;
}
