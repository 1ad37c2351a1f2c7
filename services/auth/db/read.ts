import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { databaseError } from '#shared/db/errors.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';

/** Reads outside a transaction; a database that is out of reach becomes OVERLOADED. */
export async function read<T>(database: ServiceDatabase, work: (em: SqlEntityManager) => Promise<T>): Promise<T> {
  try {
    return await work(database.em());
  } catch (error) {
    throw databaseError(error);
  }
}
