import { finished, type Writable } from 'node:stream';
import pg from 'pg';
import { parse } from 'pg-connection-string';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { clientConfig, type DatabaseUrl } from './connection.ts';
import { readOnlyState, sqlState } from './errors.ts';

const tickMs = 100;
/** After this many ticks without an answer the server is asked for a sign of life. */
const ticksUntilDoubt = 4;
/** After this many ticks without an answer the server counts as frozen (reliability.md: 503 within 1 s). */
const ticksUntilFrozen = 8;

type Watched = pg.Client & { connection: { stream: { destroy(error: Error): void } } };

/**
 * A pg Client class for pools whose queries fail within a second when the server freezes, while a statement that is merely slow, or waits
 * for a lock, may run up to its statement_timeout. A single connection cannot tell the two apart, so in doubt a fresh connection asks: any
 * reply is a sign of life. A connection that takes no writes is closed: a fresh one may reach the server that is the primary now, with the
 * database's current settings.
 *
 * Silence is counted in ticks of the event loop, so that a process that was itself suspended blames nobody.
 */
export function watchedClientClass(url: DatabaseUrl, logger: Logger): typeof pg.Client {
  const read = urlReader(url, logger);
  const waiting = new Map<Watched, number>();
  let silentTicks = 0;
  let ticker: NodeJS.Timeout | undefined;

  const tick = (): void => {
    silentTicks += 1;
    if (silentTicks === ticksUntilDoubt) {
      probe(read(clientConfig(url, { applicationName: 'probe' })), () => {
        silentTicks = 0;
      });
    }
    if (silentTicks < ticksUntilFrozen) return;
    logger.error(
      { connections: waiting.size },
      'the database does not answer; the queries that wait for it are given up',
    );
    silentTicks = 0;
    for (const client of waiting.keys()) client.connection.stream.destroy(new Error('The database does not answer'));
  };
  const begin = (client: Watched): void => {
    waiting.set(client, (waiting.get(client) ?? 0) + 1);
    if (ticker !== undefined) return;
    silentTicks = 0;
    ticker = setInterval(tick, tickMs).unref();
  };
  const end = (client: Watched): void => {
    silentTicks = 0;
    const remaining = (waiting.get(client) ?? 1) - 1;
    if (remaining > 0) waiting.set(client, remaining);
    else waiting.delete(client);
    if (waiting.size > 0) return;
    clearInterval(ticker);
    ticker = undefined;
  };

  return class WatchedClient extends pg.Client {
    constructor(config: pg.ClientConfig) {
      super(read(config));
      const query = this.query.bind(this) as (...args: unknown[]) => unknown;
      const self = this as unknown as Watched;
      const watchedQuery = (...args: unknown[]): unknown => {
        const callback = args.at(-1);
        if (typeof callback === 'function') {
          args[args.length - 1] = (...answer: unknown[]) => {
            end(self);
            closeIfReadOnly(self, answer[0]);
            callback(...answer);
          };
        }
        begin(self);
        const result = query(...args);
        if (result instanceof Promise) {
          result.then(
            () => end(self),
            (error) => {
              end(self);
              closeIfReadOnly(self, error);
            },
          );
        } else if (typeof callback !== 'function') {
          // COPY: the server has answered once the stream has finished.
          finished(result as Writable, (error) => {
            end(self);
            closeIfReadOnly(self, error);
          });
        }
        return result;
      };
      this.query = watchedQuery as typeof this.query;
    }
  };
}

/** The following rollback fails at once, so the connection leaves its pool. */
function closeIfReadOnly(client: pg.Client, error: unknown): void {
  if (sqlState(error) === readOnlyState) client.end().catch(() => {});
}

/**
 * Reads the URL of a connection, and the files that it names, such as that of `sslrootcert`. A pool makes connections where nobody catches
 * what pg throws when it cannot read one of them, which would end the process; so what was read last is used then.
 */
function urlReader(url: DatabaseUrl, logger: Logger): (config: pg.ClientConfig) => pg.ClientConfig {
  const { connectionString } = clientConfig(url, { applicationName: 'any' });
  const failures = new RepeatedFailures('a file that DATABASE_URL names', logger, 0);
  let last = parse(connectionString!);
  return (config) => {
    try {
      last = parse(connectionString!);
      failures.succeeded();
    } catch (err) {
      failures.failed(err, 'cannot be read; connections are made with what it said last');
    }
    const { connectionString: _, ...rest } = config;
    return { ...rest, ...(last as pg.ClientConfig) };
  };
}

/** Calls back if the server says anything at all, even that it has no room. */
function probe(config: pg.ClientConfig, onSign: () => void): void {
  const client = new pg.Client(config);
  client.on('error', () => {});
  client
    .connect()
    .then(onSign, (error: { code?: string; severity?: string }) => {
      if (error.severity !== undefined) onSign();
    })
    .finally(() => client.end().catch(() => {}));
}
