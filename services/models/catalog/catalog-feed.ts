import { IsolationLevel, type SqlEntityManager } from '@mikro-orm/postgresql';
import type { CatalogSnapshot } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { failoverNotice, nextVersion } from '#shared/db/failover.ts';
import { notify } from '#shared/db/notify.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import type { Logger } from '#shared/logger.ts';
import { openSnapshotFeed, type SnapshotFeed } from '#shared/snapshot-feed.ts';
import { readSnapshot } from './snapshot.ts';

const channel = 'models_catalog';

/** Serializes changes of the catalog; held until the transaction ends. */
export async function lockCatalog(em: SqlEntityManager): Promise<void> {
  await em.execute('select version from catalog_version for update');
}

/** Raises the catalog's version and tells every Models process, when the transaction of the change commits. */
export async function touchCatalog(em: SqlEntityManager): Promise<void> {
  await em.execute(`update catalog_version set version = ${nextVersion}`);
  await notify(em, channel);
}

/** The catalog as this Models process last read it. */
export type CatalogFeed = SnapshotFeed<CatalogSnapshot>;

export const openCatalogFeed = (
  database: ServiceDatabase,
  connection: DatabaseUrl,
  logger: Logger,
): Promise<CatalogFeed> => {
  const raiseVersionAfterFailover = failoverNotice({
    database,
    table: 'catalog_version',
    columns: ['version'],
    channel,
    logger,
  });
  return openSnapshotFeed({
    name: 'the catalog',
    channel,
    async read() {
      await raiseVersionAfterFailover();
      return sqlTransaction(database, readSnapshot, { isolationLevel: IsolationLevel.REPEATABLE_READ });
    },
    connection,
    logger,
  });
};
