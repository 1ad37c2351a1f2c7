import { createPostgreSqlTypeParsers, type EntityName, MikroORM, type SqlEntityManager } from '@mikro-orm/postgresql';
import { PostgresDialect, type PostgresPoolClient } from 'kysely';
import pg from 'pg';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { type TurnsByName, turnsByName } from '#shared/turns-by-name.ts';
import { appRole, clientConfig, type DatabaseUrl, databaseOf } from './connection.ts';
import { databaseError } from './errors.ts';
import { watchedClientClass } from './server-watch.ts';
import { retryingConflicts } from './transaction.ts';

/** A service's access to its own schema, as the restricted role. */
export type ServiceDatabase = {
  service: string;
  /** Turns for the changes of one organization, taken by `transactionInTurn` and `sqlTransactionInTurn`. */
  changeTurns: TurnsByName;
  /** A new unit of work: one per request or job. */
  em(): SqlEntityManager;
  /**
   * All connections of the service, those of the ORM too. For prepared statements, `unnest` and COPY: int8 is a bigint, timestamptz a Date,
   * date and numeric are text.
   */
  pool: pg.Pool;
  /**
   * One statement outside a transaction, run again after a deadlock; if the database is out of reach, fails with OVERLOADED. Give hot
   * statements a `name`: that prepares them.
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
  /** The most connections; none is opened before it is needed. */
  poolMax?: number;
  /** The longest that a statement may run, in milliseconds, waiting for locks included. */
  statementTimeoutMs?: number;
};

type TypeId = typeof pg.types.builtins.INT8;
/** Numbers that pg-types knows, but has no names for. */
const int8Array = 1016 as TypeId;
const textArray = 1009 as TypeId;

const idleTimeoutMs = 30_000;
/** Half of the connections: the most that one organization's changes may hold, even while they wait for each other. */
const changesOfOneAtOnce = 5;
const changesWaitingMax = 50;
/** In milliseconds: a forgotten transaction holds locks, so it is ended. */
const idleInTransactionTimeoutMs = 10_000;

/** Opens a service's database. Connections are made when needed, so this succeeds while Postgres is away. */
export async function openServiceDatabase(options: ServiceDatabaseOptions): Promise<ServiceDatabase> {
  const { service, connection, entities, logger, poolMax = 10, statementTimeoutMs = 5_000 } = options;
  const pool = new pg.Pool({
    ...clientConfig(connection, { applicationName: service, schema: service, role: appRole, statementTimeoutMs }),
    idle_in_transaction_session_timeout: idleInTransactionTimeoutMs,
    idleTimeoutMillis: idleTimeoutMs,
    max: poolMax,
    Client: watchedClientClass(connection, logger) as pg.PoolConfig['Client'],
    types: plainTypes(),
  });
  surviveLostConnections(pool, service, logger);
  const orm = await MikroORM.init({
    driverOptions: () => ormDialect(pool),
    dbName: databaseOf(connection),
    // The migrations have shown that it exists.
    ensureDatabase: false,
    schema: service,
    entities,
    discovery: { warnWhenNoEntities: false },
    logger: (message) => logger.debug({ orm: message }, 'orm'),
    colors: false,
  });

  return {
    service,
    changeTurns: turnsByName(changesOfOneAtOnce, { max: changesWaitingMax, what: 'changes of your organization' }),
    em: () => orm.em.fork(),
    pool,
    query: async (statement) => {
      try {
        return await retryingConflicts(() => pool.query(statement));
      } catch (error) {
        throw databaseError(error);
      }
    },
    close: async () => {
      await Promise.all([pool.end(), orm.close()]);
    },
  };
}

/**
 * pg reports a connection that the server dropped as an event; without a listener that would end the process. A failover drops all at once,
 * which is logged once.
 */
export function surviveLostConnections(pool: pg.Pool, service: string, logger: Logger): void {
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

/** The ORM's access to the connections of a pool, which it does not end. It reads dates and times from their text. */
export function ormDialect(pool: pg.Pool): PostgresDialect {
  const types = new pg.TypeOverrides();
  const parsers = createPostgreSqlTypeParsers(pg.types.getTypeParser(textArray));
  for (const [oid, parser] of Object.entries(parsers)) types.setTypeParser(Number(oid) as TypeId, parser);
  return new PostgresDialect({
    pool: { options: pool.options, connect: () => ormClient(pool, types), end: async () => {} },
  });
}

const boundsTransaction = /^(begin|start transaction|rollback)\b(?! to)/;

/**
 * Kysely, below the ORM, keeps a connection forever when its BEGIN or ROLLBACK fails, as both do once the connection is lost; after
 * `poolMax` of them none would be left. So a connection that is lost, or fails at these, leaves the pool by itself. Kysely also keeps the
 * connection that it waited for while it was being closed, and the pool's end would wait for that one.
 */
async function ormClient(pool: pg.Pool, types: pg.CustomTypesConfig): Promise<PostgresPoolClient> {
  const client = await pool.connect();
  let isReleased = false;
  const release = (isLost: boolean): void => {
    if (isReleased) return;
    isReleased = true;
    client.off('end', onEnd);
    client.release(isLost);
  };
  const onEnd = (): void => release(true);
  client.once('end', onEnd);
  if (pool.ending) {
    release(true);
    throw new Error('The database was closed');
  }
  const query = async (text: string, values: unknown[]) => {
    try {
      return await client.query({ text, values, types });
    } catch (error) {
      if (boundsTransaction.test(text)) release(true);
      throw error;
    }
  };
  return { query, release: () => release(false) } as unknown as PostgresPoolClient;
}

function plainTypes(): pg.CustomTypesConfig {
  const { INT8, DATE } = pg.types.builtins;
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
