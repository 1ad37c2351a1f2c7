import { type EntityName, MikroORM, type SqlEntityManager } from '@mikro-orm/postgresql';
import pg from 'pg';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { type TurnsByName, turnsByName } from '#shared/turns-by-name.ts';
import { appRole, clientConfig, type DatabaseUrl, databaseOf } from './connection.ts';
import { databaseError } from './errors.ts';
import { watchedClientClass } from './server-watch.ts';

/** A service's access to its own schema, as the restricted role. */
export type ServiceDatabase = {
  service: string;
  orm: MikroORM;
  /** Turns for the changes of one organization, taken by `transactionInTurn` and `sqlTransactionInTurn`. */
  changeTurns: TurnsByName;
  /** A new unit of work: one per request or job. */
  em(): SqlEntityManager;
  /** For prepared statements, `unnest` and COPY. int8 is a bigint, timestamptz a Date, date and numeric are text. */
  pool: pg.Pool;
  /**
   * One statement outside a transaction; if the database is out of reach, fails with OVERLOADED. Give hot statements a `name`: that
   * prepares them.
   */
  query<Row extends pg.QueryResultRow>(statement: pg.QueryConfig<unknown[]>): Promise<pg.QueryResult<Row>>;
  close(): Promise<void>;
};

type ServiceDatabaseOptions = {
  /** The service's name, which is its schema's name. */
  service: string;
  connection: DatabaseUrl;
  entities: EntityName[];
  logger: Logger;
  /** The most connections in each of the two pools (ORM and plain SQL); none is opened before it is needed. */
  poolMax?: number;
  /** The longest that a statement may run, in milliseconds, waiting for locks included. */
  statementTimeoutMs?: number;
};

const idleTimeoutMs = 30_000;
/** Half of the ORM's connections: the most that one organization's changes may hold, even while they wait for each other. */
const changesOfOneAtOnce = 5;
const changesWaitingMax = 50;
/** In milliseconds: a forgotten transaction holds locks, so it is ended. */
const idleInTransactionTimeoutMs = 10_000;

/** Opens a service's database. Connections are made when needed, so this succeeds while Postgres is away. */
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
  surviveLostConnections(pool, service, logger);

  let isClosed = false;
  const onPoolCreated = (created: pg.Pool): void => {
    takeBackLostConnections(created);
    // The ORM reopens a closed database for a late user, such as another service's call; nobody would close it again.
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

/**
 * pg reports a connection that the server dropped as an event; without a listener that would end the process. A failover drops all at once,
 * which is logged once.
 */
function surviveLostConnections(pool: pg.Pool, service: string, logger: Logger): void {
  const losses = new RepeatedFailures(`the connection of ${service} to the database`, logger, 0);
  pool.on('error', (err) => {
    // A connection being closed may meet a server that closes it too.
    if (!pool.ending) losses.failed(err, 'was lost while idle');
  });
  pool.on('connect', (client) => {
    losses.succeeded();
    client.on('error', (err) => logger.debug({ err }, 'a database connection was lost'));
  });
}

/**
 * Kysely, below the ORM, keeps a connection forever when its BEGIN or ROLLBACK fails, as both do once the connection is lost; after
 * `poolMax` such losses none would be left. So a lost connection returns itself to the pool. Kysely also keeps the connection that it
 * waited for while it was being closed, and the pool's end would wait for that one.
 */
export function takeBackLostConnections(pool: pg.Pool): void {
  const inUse = new Set<pg.PoolClient>();
  const takeBack = (client: pg.PoolClient): void => {
    if (!inUse.has(client)) return;
    client.release(true);
    // Its holder may still release it a second time.
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
  // By default pg makes it a Date at midnight of the machine's own time zone.
  types.setTypeParser(DATE, (text) => text);
  return types;
}
