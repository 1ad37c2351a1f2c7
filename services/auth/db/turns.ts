import type { SqlEntityManager } from '@mikro-orm/postgresql';

/** Whoever takes the same turn waits until the transaction ends. */
export async function takeTurn(em: SqlEntityManager, subject: string): Promise<void> {
  await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [subject]);
}

/** The same for whoever must not wait; answers whether it is their turn. */
export async function tryTurn(em: SqlEntityManager, subject: string): Promise<boolean> {
  const [row] = await em.execute<{ taken: boolean }[]>(
    'select pg_try_advisory_xact_lock(hashtextextended(?, 0)) as taken',
    [subject],
  );
  return row!.taken;
}
