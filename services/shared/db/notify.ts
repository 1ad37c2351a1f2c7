import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from '#shared/logger.ts';
import { RepeatedFailures } from '#shared/repeated-failures.ts';
import { clientConfig, type DatabaseUrl } from './connection.ts';
import { patiently } from './patiently.ts';
import { run, type StatementRunner } from './run.ts';

/** Tells the listeners of `channel` that there is something to read, once and only when the transaction commits. */
export async function notify(tx: StatementRunner, channel: string): Promise<void> {
  await run(tx, "select pg_notify(?, '')", [channel]);
}

type ListenOptions = {
  connection: DatabaseUrl;
  /** What to do with a payload, by channel. */
  channels: Readonly<Record<string, (payload: string) => void>>;
  /** The connection was lost and is back: notifications in between are lost, so everything they would have reported must be read again. */
  onGap: () => void;
  /**
   * A statement to send every second instead of an empty one, for a listener that has to poll anyway, and what to do with its first row.
   */
  heartbeat?: { statement(): { text: string; values: unknown[] }; onRow(row: pg.QueryResultRow): void };
  logger: Logger;
};

export type Listener = { close(): Promise<void> };

const heartbeatMs = 1_000;
const reconnectDelayMsMax = 1_000;
/** How long a close waits for the server, in milliseconds. */
const goodbyeMsMax = 500;

/**
 * Listens on a connection of its own, and reconnects when that is lost. A heartbeat detects a server that no longer answers within two
 * seconds (reliability.md: revocation under partition). Resolves once it listens.
 *
 * @throws StartError when the database stays away.
 */
export async function listen(options: ListenOptions): Promise<Listener> {
  const { channels, logger, onGap } = options;
  const failures = new RepeatedFailures(
    `listening for notifications of ${Object.keys(channels).join(', ')}`,
    logger,
    0,
  );
  const closed = new AbortController();
  let client = await patiently(() => connectListener(options));

  const keepListening = async (): Promise<void> => {
    for (;;) {
      const err = await lossOf(client, closed.signal, options.heartbeat, () => failures.succeeded());
      if (closed.signal.aborted) return;
      failures.failed(err, 'failed; trying again');
      const next = await reconnect(options, closed.signal, failures);
      if (next === undefined) return;
      client = next;
      onGap();
    }
  };
  const running = keepListening();
  return {
    close: async () => {
      closed.abort();
      await running;
      // The server may never answer the end of its connection.
      await Promise.race([client.end().catch(() => {}), delay(goodbyeMsMax, undefined, { ref: false })]);
    },
  };
}

async function connectListener({ connection, channels }: ListenOptions): Promise<pg.Client> {
  const client = new pg.Client({
    ...clientConfig(connection, { applicationName: 'listen' }),
    query_timeout: heartbeatMs,
  });
  // lossOf listens too; this listener covers the time before and after.
  client.on('error', () => {});
  client.on('notification', ({ channel, payload }) => channels[channel]?.(payload ?? ''));
  try {
    await client.connect();
    for (const channel of Object.keys(channels)) await client.query(`listen ${pg.escapeIdentifier(channel)}`);
    return client;
  } catch (error) {
    client.end().catch(() => {});
    throw error;
  }
}

async function reconnect(
  options: ListenOptions,
  signal: AbortSignal,
  failures: RepeatedFailures,
): Promise<pg.Client | undefined> {
  for (let waitMs = 20; !signal.aborted; waitMs = Math.min(waitMs * 2, reconnectDelayMsMax)) {
    try {
      return await connectListener(options);
    } catch (err) {
      failures.failed(err, 'failed; trying again');
      await delay(waitMs, undefined, { signal }).catch(() => {});
    }
  }
  return undefined;
}

/**
 * Resolves with the reason when the connection has ended or does not answer a heartbeat in time, or when `signal` aborts. `onSound` is called
 * after each answer.
 */
async function lossOf(
  client: pg.Client,
  signal: AbortSignal,
  heartbeat: ListenOptions['heartbeat'],
  onSound: () => void,
): Promise<unknown> {
  const ended = new AbortController();
  const stop = AbortSignal.any([signal, ended.signal]);
  client.once('error', (error) => ended.abort(error));
  client.once('end', () => ended.abort(new Error('the server ended the connection')));
  while (!stop.aborted) {
    try {
      await delay(heartbeatMs, undefined, { signal: stop });
      const { rows } = await client.query(heartbeat?.statement() ?? { text: 'select 1', values: [] });
      onSound();
      heartbeat?.onRow(rows[0]!);
    } catch (error) {
      ended.abort(error);
    }
  }
  if (!signal.aborted) client.end().catch(() => {});
  return ended.signal.reason;
}
