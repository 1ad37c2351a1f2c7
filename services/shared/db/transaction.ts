import { setTimeout as delay } from 'node:timers/promises';
import type { IsolationLevel, SqlEntityManager } from '@mikro-orm/postgresql';
import type pg from 'pg';
import { databaseError, isConflict } from './errors.ts';
import type { ServiceDatabase } from './orm.ts';

const attemptsMax = 5;
/** Doubles with each attempt; half of it is chance, so that two rivals part. */
const backoffMs = 10;

/**
 * Runs `work` in one transaction of the ORM, with a unit of work of its own that is flushed before the commit.
 * It may run several times, after a deadlock or a serialization failure: it must change nothing but the database.
 *
 * @throws GatewayError OVERLOADED when the database is out of reach or the conflicts go on.
 */
export function transaction<T>(
  database: Pick<ServiceDatabase, 'em'>,
  work: (em: SqlEntityManager) => Promise<T>,
  options: { isolationLevel?: IsolationLevel } = {},
): Promise<T> {
  return retryingConflicts(() => database.em().transactional(work, options)).catch(throwDatabaseError);
}

/** Whose turn a call waits for, and until when. */
type TurnOfCall = { tenantId: string; signal: AbortSignal };

/**
 * Like `transaction`, for a change that anybody of an organization may make as often as they like: few of one organization run at a time, since
 * those that wait for each other's rows hold connections, which everybody needs. Beyond a number that wait they fail with RATE_LIMITED. One
 * whose caller has left before its turn is not made: they were told that it took too long, and may have repeated it.
 */
export function transactionInTurn<T>(
  database: Pick<ServiceDatabase, 'em' | 'changeTurns'>,
  { tenantId, signal }: TurnOfCall,
  work: (em: SqlEntityManager) => Promise<T>,
): Promise<T> {
  return database.changeTurns.run(tenantId, signal, () => transaction(database, work));
}

/**
 * Like `transaction`, in plain SQL on one connection: for prepared statements, `unnest` and COPY. `settings` hold until it ends; they
 * go with BEGIN, since each further round trip waits for its turn here and in Postgres. Once `signal` aborts, the connection is given up in
 * the middle of a statement, which Postgres then undoes.
 */
export function sqlTransaction<T>(
  database: Pick<ServiceDatabase, 'pool'>,
  work: (client: pg.PoolClient) => Promise<T>,
  options: {
    isolationLevel?: IsolationLevel;
    settings?: Readonly<Record<string, string | number>>;
    signal?: AbortSignal;
  } = {},
): Promise<T> {
  const { isolationLevel = 'read committed', settings = {}, signal } = options;
  const begin = [
    `begin isolation level ${isolationLevel}`,
    ...Object.entries(settings).map(([name, value]) => `set local ${name} = ${value}`),
  ].join('; ');
  return retryingConflicts(async () => {
    const client = await database.pool.connect();
    let broken: Error | undefined;
    const giveUp = (): void => void client.end();
    signal?.addEventListener('abort', giveUp);
    try {
      signal?.throwIfAborted();
      await client.query(begin);
      const result = await work(client);
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback').catch((failure: Error) => {
        broken = failure;
      });
      throw error;
    } finally {
      signal?.removeEventListener('abort', giveUp);
      // A connection that cannot even roll back is not given to anybody else.
      client.release(broken);
    }
  }).catch(throwDatabaseError);
}

/** Like `transactionInTurn`, in plain SQL. */
export function sqlTransactionInTurn<T>(
  database: Pick<ServiceDatabase, 'pool' | 'changeTurns'>,
  { tenantId, signal }: TurnOfCall,
  work: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  return database.changeTurns.run(tenantId, signal, () => sqlTransaction(database, work));
}

function throwDatabaseError(error: unknown): never {
  throw databaseError(error);
}

/** Runs a transaction again that a deadlock or a serialization failure has undone, a few times. */
export async function retryingConflicts<T>(attempt: () => Promise<T>): Promise<T> {
  for (let count = 1; ; count += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (!isConflict(error) || count === attemptsMax) throw error;
      await delay(backoffMs * 2 ** count * (0.5 + Math.random() / 2));
    }
  }
}
