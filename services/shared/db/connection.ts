import pg from 'pg';
import { messageOf } from '#shared/message-of.ts';
import { StartError } from '#shared/start-error.ts';
import { sqlState } from './errors.ts';

/**
 * Where Postgres is: `postgresql://user:password@host:5432/database?sslmode=verify-full`, or over a Unix socket
 * `postgresql:///database?host=/folder&user=name`.
 */
export type DatabaseUrl = string;

/** The role under which services work. It owns nothing: the migrations' GRANTs say what it may do. */
export const appRole = 'modelgateway_app';

/** The database's name, without the rest of the URL, which may hold a password. */
export const databaseOf = (url: DatabaseUrl): string =>
  decodeURIComponent(new URL(url).pathname.slice(1)) || 'postgres';

/** How long a new connection may take, in milliseconds. Together with server-watch.ts this keeps a refusal within 1 s. */
const connectTimeoutMs = 700;

/** Balancers and firewalls give up a connection on which nothing has passed for some minutes, even if a statement runs. In milliseconds. */
const probedAfterMs = 60_000;

/** A start is in no such hurry, and may find the machine busy with other starts. */
export const startConnectTimeoutMs = 5_000;

type SessionOptions = {
  /** Shown in pg_stat_activity. */
  applicationName: string;
  /** Schema in which unqualified names are looked up. */
  schema?: string;
  role?: string;
  /** Server-side limit of one statement, in milliseconds; without it there is none. */
  statementTimeoutMs?: number;
};

/** Settings that a database or role may have changed, and that reading, committing, waiting or listening relies on. */
const fixedSettings = [
  ['timezone', 'UTC'],
  ['datestyle', 'ISO'],
  ['intervalstyle', 'postgres'],
  ['standard_conforming_strings', 'on'],
  ['array_nulls', 'on'],
  ['default_transaction_isolation', 'read\\ committed'],
  ['lock_timeout', 0],
  ['idle_session_timeout', 0],
  ['idle_in_transaction_session_timeout', 0],
];

/** Where the URL has these, pg prefers them to its own options. */
const ownParameters = [
  'options',
  'application_name',
  'statement_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
  'query_timeout',
  'connectionTimeoutMillis',
  'keepAlive',
  'keepAliveInitialDelayMillis',
];

/** The settings of a connection for pg: the URL's own options, overridden by the fixed settings and those that the session needs. */
export function clientConfig(url: DatabaseUrl, session: SessionOptions): pg.ClientConfig {
  const settings = [
    ...fixedSettings,
    ['search_path', session.schema],
    ['role', session.role],
    ['statement_timeout', session.statementTimeoutMs ?? 0],
  ].filter(([, value]) => value !== undefined);
  const read = new URL(url);
  const given = read.searchParams.get('options') ?? '';
  for (const name of ownParameters.filter((each) => read.searchParams.has(each))) read.searchParams.delete(name);
  return {
    connectionString: asLibpqReads(read.href),
    application_name: `modelgateway-${session.applicationName}`,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: probedAfterMs,
    options: [given, ...settings.map(([name, value]) => `-c ${name}=${value}`)].join(' ').trimStart(),
  };
}

/** Those of libpq, and pg's own word for `require`. */
const sslModes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];

/**
 * Gives `sslmode` the meaning it has in libpq (Postgres documentation, SSL Support) and in the URLs that providers hand out: by default pg
 * treats `require` as `verify-full`, with a warning. The connection never falls back to clear text, so `allow` and `prefer` mean `require`.
 * `sslrootcert=system`, which pg takes for a file name, becomes the authorities that Node trusts.
 */
function asLibpqReads(url: DatabaseUrl): string {
  const read = new URL(url);
  const mode = read.searchParams.get('sslmode') || undefined;
  // pg takes any other word for `verify-full`.
  if (mode !== undefined && !sslModes.includes(mode))
    throw new Error(`sslmode=${mode} is none of ${sslModes.join(', ')}`);
  if (read.searchParams.get('sslrootcert') === 'system') {
    // Public authorities sign anybody's certificate; only the name shows that it is the database's.
    if (mode !== undefined && mode !== 'verify-full') {
      throw new Error(`sslrootcert=system needs sslmode=verify-full, not ${mode}`);
    }
    read.searchParams.delete('sslrootcert');
    read.searchParams.set('sslmode', 'verify-full');
    return read.href;
  }
  if (mode === undefined || mode === 'no-verify') return url;
  if (mode === 'allow' || mode === 'prefer') read.searchParams.set('sslmode', 'require');
  read.searchParams.set('uselibpqcompat', 'true');
  return read.href;
}

/** The first version with `storage` in `add column`, which Jobs' migrations use. */
const versionMin = 16;

/** Anything but the default shows that a connection keeps the settings it was made with. */
const checkedSchema = 'pg_catalog';

/** The first version with `transaction_timeout`; earlier ones refuse a connection that sets it. */
const versionOfTransactionTimeout = 17;

/**
 * Resolves to the URL to work with: where the server knows `transaction_timeout`, its options fix that, too.
 *
 * @throws StartError when no connection can be made within `startConnectTimeoutMs`, or the database is not one to work with.
 */
export async function checkReachable(url: DatabaseUrl): Promise<DatabaseUrl> {
  let client: pg.Client;
  try {
    client = new pg.Client({
      ...clientConfig(url, { applicationName: 'check', schema: checkedSchema }),
      connectionTimeoutMillis: startConnectTimeoutMs,
    });
  } catch (cause) {
    // The file named by `sslrootcert` or the like.
    throw new StartError(`DATABASE_URL cannot be used (${(cause as Error).message}): correct it.`, { cause });
  }
  client.on('error', () => {});
  const { host, database } = client;
  try {
    await client.connect();
    const { rows } = await client.query(
      `select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
              current_setting('server_encoding') as encoding, current_setting('transaction_read_only') as read_only,
              current_setting('search_path') as search_path`,
    );
    const unsuitable = unsuitability(rows[0]);
    if (unsuitable !== null) throw new StartError(`Database ${database} on ${host} ${unsuitable}`);
    return rows[0].number < versionOfTransactionTimeout * 10_000 ? url : withoutTransactionTimeout(url);
  } catch (cause) {
    if (cause instanceof StartError) throw cause;
    const reason = messageOf(cause);
    // PgBouncer's protocol_violation and RDS Proxy's feature_not_supported, for the settings of a connection.
    if (['08P01', '0A000'].includes(sqlState(cause) ?? ''))
      throw new StartError(`Database ${database} on ${host} ${behindPooler(reason)}`, { cause });
    throw new StartError(
      `Postgres is out of reach (database ${database} on ${host}: ${reason}): start it, or correct DATABASE_URL.`,
      { cause },
    );
  } finally {
    client.end().catch(() => {});
  }
}

/** Migrations, and verifications of the ledger, may take hours. */
function withoutTransactionTimeout(url: DatabaseUrl): DatabaseUrl {
  const read = new URL(url);
  const given = read.searchParams.get('options') ?? '';
  read.searchParams.set('options', `${given} -c transaction_timeout=0`.trimStart());
  return read.href;
}

/** Why a database is unsuitable, and what to do about it; null when it is suitable. */
export function unsuitability(of: {
  version: string;
  number: number;
  encoding: string;
  read_only: string;
  search_path: string;
}): string | null {
  if (of.number < versionMin * 10_000)
    return `is Postgres ${of.version}: set DATABASE_URL to a Postgres ${versionMin} or later.`;
  if (of.encoding !== 'UTF8')
    return `has the encoding ${of.encoding}, which cannot hold every text: set DATABASE_URL to a database with the encoding UTF8.`;
  if (of.read_only === 'on')
    return 'is read-only: set DATABASE_URL to the primary server, and to a database that can be written.';
  if (of.search_path !== checkedSchema) return behindPooler('they are ignored');
  return null;
}

const behindPooler = (reason: string): string =>
  `is behind a pooler that drops the settings of a connection (${reason}): set DATABASE_URL to Postgres itself.`;
