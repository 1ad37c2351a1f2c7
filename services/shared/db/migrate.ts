import { type Migration, Migrator } from '@mikro-orm/migrations';
import { type Constructor, MikroORM } from '@mikro-orm/postgresql';
import pg from 'pg';
import type { Logger } from '#shared/logger.ts';
import { messageOf } from '#shared/message-of.ts';
import { StartError } from '#shared/start-error.ts';
import { appRole, clientConfig, type DatabaseUrl, databaseOf, startConnectTimeoutMs } from './connection.ts';
import { isConflict, isOutOfReach, sqlState } from './errors.ts';
import { ormDialect, surviveLostConnections } from './orm.ts';
import { patiently } from './patiently.ts';
import { retryingConflicts } from './transaction.ts';

/** A migration with the name under which it is recorded; never rename one that has been released. */
export type NamedMigration = { name: string; class: Constructor<Migration> };

export type ServiceMigrations = { service: string; migrations: readonly NamedMigration[] };

const migrationsTable = 'schema_migrations';

/** An arbitrary constant: it keeps two gateways that start at once from migrating the same database together. */
const advisoryLock = 7_205_759_403_792_794n;

/** How often a start reports what it waits for, which may be a forgotten lock. */
const tellEachMs = 5_000;

/**
 * Brings each service's schema up to date, as the login role of `connection`, which owns what it creates. Services work as
 * `modelgateway_app`, which may read and write new tables; a migration revokes what is too much (`revoke update, delete on … from
 * modelgateway_app` makes a table append-only). A database with unknown migrations is left alone: this version would write data in a form
 * that they have changed. Whether the database is one to work with was checked before (checkReachable).
 *
 * @throws StartError when the database is out of reach or goes away, another program has such a schema in it, a newer version has migrated
 * it, processes at work on it go on colliding with a migration, or the login role or `modelgateway_app` lacks a right.
 */
export async function migrateAll(
  connection: DatabaseUrl,
  services: readonly ServiceMigrations[],
  logger: Logger,
): Promise<void> {
  // The machine may have become busy in the meantime: a running start is not given up because of that.
  const client = await patiently(() => connect(connection));
  client.on('error', (err) => logger.warn({ err }, 'the connection that holds the migration lock was lost'));
  let by = 'another start, in a session modelgateway-migrate';
  const telling = setInterval(
    () => logger.warn({ by }, 'the start is waiting for the migration of the database'),
    tellEachMs,
  );
  try {
    await client.query('select pg_advisory_lock($1)', [advisoryLock]);
    await checkSchemas(client, services);
    const behind = await servicesBehind(client, services);
    await createAppRole(client);
    for (const { service } of services) await checkRights(client, service);
    await checkOwners(client, services, behind, logger);
    for (const { service } of services) await createSchema(client, service);
    for (const { service, migrations } of behind) {
      by = `migrations of ${service}`;
      // Processes that are still at work may lock the same tables in another order.
      const applied = await retryingConflicts(() => applyPending(connection, service, migrations, client, logger));
      logger.info({ service, migrations: applied }, 'migrated');
    }
    if (behind.length > 0) await tellOfOlderProcesses(client, logger);
  } catch (error) {
    if (isOutOfReach(error)) {
      throw new StartError(`The database could not be migrated (${messageOf(error)}): fix that and start again.`, {
        cause: error,
      });
    }
    if (isConflict(error)) {
      throw new StartError(
        `The database could not be migrated (${messageOf(error)}): processes of an older version are at work on it, so stop them and start again.`,
        { cause: error },
      );
    }
    if (sqlState(error) !== '42501') throw error;
    throw new StartError(
      `The user of DATABASE_URL lacks a right (${(error as Error).message}): let it create roles and schemas or, if another user created the role, grant it ${appRole}.`,
      { cause: error },
    );
  } finally {
    clearInterval(telling);
    // Ends the session, and with it the lock.
    await client.end();
  }
}

async function connect(connection: DatabaseUrl): Promise<pg.Client> {
  const client = new pg.Client({
    ...clientConfig(connection, { applicationName: 'migrate' }),
    connectionTimeoutMillis: startConnectTimeoutMs,
  });
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function createAppRole(client: pg.Client): Promise<void> {
  const { rows } = await client.query('select pg_has_role(oid, $2) as usable from pg_roles where rolname = $1', [
    appRole,
    'MEMBER',
  ]);
  if (rows[0]?.usable === true) return;
  if (rows.length === 0) {
    try {
      await client.query(`create role ${appRole} nologin`);
    } catch (error) {
      // Roles belong to the whole server: another of its databases may have been faster.
      if (!['42710', '23505'].includes(sqlState(error) ?? '')) throw error;
    }
  }
  await client.query(`grant ${appRole} to current_user`);
}

/**
 * Rights are granted by migrations that have already run, so nothing would restore those that a dump left out: its GRANTs fail where the
 * server has no such role.
 *
 * @throws StartError when the role may not read what every version lets it read.
 */
async function checkRights(client: pg.Client, service: string): Promise<void> {
  const table = `${pg.escapeIdentifier(service)}.${migrationsTable}`;
  const { rows } = await client.query("select has_table_privilege($1, to_regclass($2), 'select') as readable", [
    appRole,
    table,
  ]);
  if (rows[0].readable !== false) return;
  throw new StartError(
    `The database was restored without the rights of ${appRole} (to tables of ${service}): run "create role ${appRole} nologin", then restore the dump with its privileges into an empty database.`,
  );
}

/**
 * Only their owner can change tables. A dump that was restored as another user, without its owners, serves all the same, until an upgrade
 * has something to migrate, which is too late to restore it anew.
 *
 * @throws StartError when a service that lacks migrations has tables of another user.
 */
async function checkOwners(
  client: pg.Client,
  services: readonly ServiceMigrations[],
  behind: readonly ServiceMigrations[],
  logger: Logger,
): Promise<void> {
  const { rows: others } = await client.query<{ service: string; owner: string; user: string }>(
    `select nspname as service, pg_get_userbyid(relowner) as owner, current_user as user
      from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where relname = $1 and nspname = any($2) and not pg_has_role(relowner, 'USAGE')`,
    [migrationsTable, services.map(({ service }) => service)],
  );
  if (others.length === 0) return;
  const { owner, user } = others[0]!;
  const remedy = `restore the dump as ${user}, or make ${user} the owner of the schemas and of all that is in them`;
  if (behind.some(({ service }) => others.some((other) => other.service === service)))
    throw new StartError(
      `The database cannot be migrated, since its tables belong to ${owner}, not to ${user}, the user of DATABASE_URL: ${remedy}.`,
    );
  logger.warn({ owner }, `the tables of this database belong to another user, so no upgrade can migrate it: ${remedy}`);
}

async function createSchema(client: pg.Client, service: string): Promise<void> {
  const schema = pg.escapeIdentifier(service);
  await client.query(`
    create schema if not exists ${schema};
    grant usage on schema ${schema} to ${appRole};
    alter default privileges in schema ${schema} grant select, insert, update, delete on tables to ${appRole};
    alter default privileges in schema ${schema} grant usage, select on sequences to ${appRole};
  `);
}

async function applyPending(
  connection: DatabaseUrl,
  service: string,
  migrations: readonly NamedMigration[],
  client: pg.Client,
  logger: Logger,
): Promise<string[]> {
  const pool = new pg.Pool({
    ...clientConfig(connection, { applicationName: 'migrate', schema: service }),
    max: 2,
  });
  surviveLostConnections(pool, service, logger);
  const orm = await MikroORM.init({
    driverOptions: () => ormDialect(pool),
    dbName: databaseOf(connection),
    schema: service,
    entities: [],
    discovery: { warnWhenNoEntities: false },
    extensions: [Migrator],
    migrations: { tableName: migrationsTable, migrationsList: [...migrations], snapshot: false, silent: true },
  });
  try {
    const done = await orm.migrator.up().catch((cause: Error) => {
      throw Object.assign(new Error(`A migration of ${service} failed: ${messageOf(cause)}`, { cause }), {
        code: sqlState(cause),
      });
    });
    await client.query(
      `revoke insert, update, delete on ${pg.escapeIdentifier(service)}.${migrationsTable} from ${appRole}`,
    );
    return done.map(({ name }) => name);
  } finally {
    await Promise.all([pool.end(), orm.close()]);
  }
}

/**
 * The schemas have common names: Supabase has an `auth`, for one, with a `schema_migrations` of its own.
 *
 * @throws StartError when one of them holds something, but no record of this program's migrations.
 */
async function checkSchemas(client: pg.Client, services: readonly ServiceMigrations[]): Promise<void> {
  const { rows } = await client.query<{ schema: string }>(
    `select nspname as schema from pg_namespace where nspname = any($1)
      and exists (select from pg_class where relnamespace = pg_namespace.oid)
      and not exists (select from pg_class join pg_attribute on attrelid = pg_class.oid
        where relnamespace = pg_namespace.oid and relname = $2 and attname = 'executed_at')`,
    [services.map(({ service }) => service), migrationsTable],
  );
  if (rows.length === 0) return;
  const schema = rows[0]!.schema;
  throw new StartError(
    `The schema ${schema} of the database belongs to another program: set DATABASE_URL to a database of the gateway's own.`,
  );
}

/** Any process already working on the schemas, before the lock is released, has started before they were changed. */
async function tellOfOlderProcesses(client: pg.Client, logger: Logger): Promise<void> {
  const { rows } = await client.query<{ sessions: number }>(`
    select count(*)::int as sessions from pg_stat_activity where datname = current_database()
      and application_name like 'modelgateway-%' and application_name not in ('modelgateway-migrate', 'modelgateway-check')`);
  const { sessions } = rows[0]!;
  if (sessions > 0)
    logger.warn({ sessions }, 'processes of an older version still use the database that was just migrated: stop them');
}

/**
 * The services that lack migrations: an ordinary start need not run the migrators, of which there is one per service.
 *
 * @throws StartError when the database has a migration that is unknown here.
 */
async function servicesBehind(
  client: pg.Client,
  services: readonly ServiceMigrations[],
): Promise<readonly ServiceMigrations[]> {
  const behind: ServiceMigrations[] = [];
  for (const each of services) {
    const known = new Set(each.migrations.map(({ name }) => name));
    const applied = await appliedNames(client, each.service);
    for (const name of applied) {
      if (known.has(name)) continue;
      throw new StartError(
        `The database was migrated by a newer version of the gateway (${each.service} ${name}): start that version, or restore a backup from before the migration.`,
      );
    }
    if (applied.size < known.size) behind.push(each);
  }
  return behind;
}

async function appliedNames(client: pg.Client, service: string): Promise<ReadonlySet<string>> {
  const table = `${pg.escapeIdentifier(service)}.${migrationsTable}`;
  const { rows: found } = await client.query('select to_regclass($1) is not null as found', [table]);
  if (!found[0].found) return new Set();
  const { rows } = await client.query<{ name: string }>(`select name from ${table} order by id`);
  return new Set(rows.map(({ name }) => name));
}
