import pg from 'pg';
import { StartError } from '#shared/start-error.ts';

/**
 * Where Postgres is: `postgresql://user:password@host:5432/database?sslmode=verify-full`, or over a Unix socket
 * `postgresql:///database?host=/folder&user=name`.
 */
export type DatabaseUrl = string;

/** The role under which services work. It owns nothing: what it may do stands in the migrations' GRANTs. */
export const appRole = 'modelgateway_app';

/** The same server, another database. */
export function withDatabase(url: DatabaseUrl, database: string): DatabaseUrl {
  const copy = new URL(url);
  copy.pathname = `/${database}`;
  return copy.href;
}

/** The database's name, without the rest of the URL, which may hold a password. */
export const databaseOf = (url: DatabaseUrl): string =>
  decodeURIComponent(new URL(url).pathname.slice(1)) || 'postgres';

/** How long a new connection may take, in milliseconds. With server-watch.ts it keeps a refusal within 1 s. */
export const connectTimeoutMs = 700;

/** A start is in no such hurry, and may find the machine busy with other starts. */
export const startConnectTimeoutMs = 5_000;

export type SessionOptions = {
  /** Shown in pg_stat_activity. */
  applicationName: string;
  /** Schema in which unqualified names are looked up. */
  schema?: string;
  role?: string;
  /** Server-side limit of one statement, in milliseconds. */
  statementTimeoutMs?: number;
};

/** Settings of a connection for pg: UTC, and whatever the session needs. */
export function clientConfig(url: DatabaseUrl, session: SessionOptions): pg.ClientConfig {
  const settings = [
    ['timezone', 'UTC'],
    ['search_path', session.schema],
    ['role', session.role],
    ['statement_timeout', session.statementTimeoutMs],
  ].filter(([, value]) => value !== undefined);
  return {
    connectionString: url,
    application_name: `modelgateway-${session.applicationName}`,
    connectionTimeoutMillis: connectTimeoutMs,
    keepAlive: true,
    options: settings.map(([name, value]) => `-c ${name}=${value}`).join(' '),
  };
}

/** @throws StartError when no connection can be made within `startConnectTimeoutMs`. */
export async function checkReachable(url: DatabaseUrl): Promise<void> {
  const client = new pg.Client({
    ...clientConfig(url, { applicationName: 'check' }),
    connectionTimeoutMillis: startConnectTimeoutMs,
  });
  client.on('error', () => {});
  try {
    await client.connect();
  } catch (cause) {
    const { host, database } = client;
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StartError(
      `Postgres is out of reach (database ${database} on ${host}: ${reason}): start it, or correct DATABASE_URL.`,
      { cause },
    );
  } finally {
    client.end().catch(() => {});
  }
}
