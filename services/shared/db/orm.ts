import { type EntityName, MikroORM, type SqlEntityManager } from '@mikro-orm/postgresql';
import pg from 'pg';
import type { Logger } from '#shared/logger.ts';
import { type TurnsByName, turnsByName } from '#shared/turns-by-name.ts';
import { appRole, clientConfig, type DatabaseUrl, databaseOf } from './connection.ts';
import { databaseError } from './errors.ts';
import { watchedClientClass } from './server-watch.ts';

/** A service's access to its own schema, as the restricted role. */
export type ServiceDatabase = {
  service: string;
  orm: MikroORM;
  /** Whose turn it is to change something, by organization: of `transactionInTurn` and its like. */
  changeTurns: TurnsByName;
  /** A new unit of work: one per request or job. */
  em(): SqlEntityManager;
  /** For prepared statements, `unnest` and COPY. int8 comes as bigint, timestamptz as Date, date and numeric as text. */
  pool: pg.Pool;
  /** One statement outside a transaction; out of reach becomes OVERLOADED. Give hot statements a `name`: it prepares them. */
  query<Row extends pg.QueryResultRow>(statement: pg.QueryConfig<unknown[]>): Promise<pg.QueryResult<Row>>;
  close(): Promise<void>;
};

export type ServiceDatabaseOptions = {
  /** The service's name, which is its schema's name. */
  service: string;
  connection: DatabaseUrl;
  entities: EntityName[];
  logger: Logger;
  /** The most connections of each of the two pools (ORM and plain SQL); none is opened before it is needed. */
  poolMax?: number;
  /** The longest a statement may run, waiting for locks included, in milliseconds. */
  statementTimeoutMs?: number;
};

const idleTimeoutMs = 30_000;
/** Half of the connections of the ORM: so many one organization's changes may hold, in waiting for each other too. */
const changesOfOneAtOnce = 5;
const changesWaitingMax = 50;
/** A transaction that its owner forgot holds locks: it is ended, in milliseconds. */
const idleInTransactionTimeoutMs = 10_000;

/** Opens a service's database. Connections are made when they are needed, so that this succeeds while Postgres is away. */
export async function openServiceDatabase(options: ServiceDatabaseOptions): Promise<ServiceDatabase> {
  const { service, connection, entities, logger, poolMax = 10, statementTimeoutMs = 5_000 } = options;
  const poolConfig: pg.PoolConfig = {
    ...clientConfig(connection, { applicationName: service, schema: service, role: appRole, statementTimeoutMs }),
    idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
    idleTimeoutMillis: idleTimeoutMs,
    max: poolMax,
    Client: watchedClientClass(connection, logger) as pg.PoolConfig['Client'],
  };
  const pool = new pg.Pool({ ...poolConfig, types: plainTypes() });
  surviveLostConnections(pool, logger);

  let isClosed = false;
  const onPoolCreated = (created: pg.Pool): void => {
    takeBackLostConnections(created);
    // The ORM opens a closed database anew for whoever comes too late, such as a call of another service; nobody would close it again.
    if (isClosed) void created.end();
  };
  const orm = await MikroORM.init({
    driverOptions: { ...poolConfig, onPoolCreated },
    dbName: databaseOf(connection),
    schema: service,
    entities,
    discovery: { warnWhenNoEntities: false },
    logger: (message) => logger.debug({ orm: message }, 'orm'),
    colors: false,
  });

  return {
    service,
    orm,
    changeTurns: turnsByName(changesOfOneAtOnce, { max: changesWaitingMax, what: 'changes of your organization' }),
    em: () => orm.em.fork(),
    pool,
    query: async (statement) => {
      try {
        return await pool.query(statement);
      } catch (error) {
        throw databaseError(error);
      }
    },
    close: async () => {
      isClosed = true;
      await Promise.all([pool.end(), orm.close()]);
    },
  };
}

/** pg reports a connection that the server dropped as an event; without a listener it would end the process. */
function surviveLostConnections(pool: pg.Pool, logger: Logger): void {
  pool.on('error', (err) => {
    // A connection that says goodbye may meet a server which does as well.
    if (!pool.ending) logger.warn({ err }, 'an idle database connection was lost');
  });
  pool.on('connect', (client) => {
    client.on('error', (err) => logger.debug({ err }, 'a database connection was lost'));
  });
}

/**
 * Kysely, below the ORM, keeps a connection for ever when its BEGIN or ROLLBACK fails, as both do once the connection is
 * lost; after `poolMax` such losses nothing would be left. So a lost connection goes back by itself. It also keeps the one that it
 * waited for while it was closed, for which the pool's end would wait.
 */
export function takeBackLostConnections(pool: pg.Pool): void {
  const inUse = new Set<pg.PoolClient>();
  const takeBack = (client: pg.PoolClient): void => {
    if (!inUse.has(client)) return;
    client.release(true);
    // Whoever still holds it may release it once more.
    client.release = () => {};
  };
  pool.on('acquire', (client) => {
    inUse.add(client);
    if (pool.ending) queueMicrotask(() => takeBack(client));
  });
  pool.on('release', (_error, client) => inUse.delete(client));
  pool.on('connect', (client) => client.once('end', () => takeBack(client)));
}

function plainTypes(): pg.CustomTypesConfig {
  const { INT8, DATE } = pg.types.builtins;
  // pg-types knows the number, but has no name for it.
  const int8Array = 1016 as typeof INT8;
  const parseInt8Array = pg.types.getTypeParser(int8Array);
  const types = new pg.TypeOverrides();
  types.setTypeParser(INT8, BigInt);
  types.setTypeParser(int8Array, (text) =>
    (parseInt8Array(text) as (string | null)[]).map((item) => (item === null ? null : BigInt(item))),
  );
  // pg would make a Date at midnight of the machine's own time zone.
  types.setTypeParser(DATE, (text) => text);
  return types;
}
