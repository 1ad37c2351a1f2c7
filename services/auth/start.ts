import type { ServiceImpl } from '@connectrpc/connect';
import type { Registry } from 'prom-client';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { databaseNow } from '#shared/db/database-now.ts';
import { openServiceDatabase } from '#shared/db/orm.ts';
import { patiently } from '#shared/db/patiently.ts';
import { openLeasedFeed } from '#shared/leased-feed/leased-feed.ts';
import type { Logger } from '#shared/logger.ts';
import { showOutbox } from '#shared/outbox-metrics.ts';
import { startRecurringWork } from '#shared/recurring-work.ts';
import { followStream } from '#shared/rpc/follow-stream.ts';
import { createSecretBox } from '#shared/secret-box.ts';
import { entities } from './db/entities.ts';
import { mailsWaiting } from './db/mail.repository.ts';
import { authEvents } from './feed/auth-events.ts';
import { createKeyRefreshes, type KeysClient } from './feed/key-refreshes.ts';
import { authService } from './index.ts';
import { createMailOutbox, mailDomain } from './mail/outbox.ts';
import { createLoginThrottle } from './passwords/login-throttle.ts';
import { createPasswordHasher } from './passwords/password-hasher.ts';
import { openSigningKeys } from './tokens/signing-keys.ts';
import { startHousekeeping } from './workers/housekeeping.ts';

export type AuthOptions = {
  connection: DatabaseUrl;
  clock: Clock;
  /** A test's; otherwise the database's own, moved as far as `clock` is from the machine's. */
  databaseNow?: () => Promise<number>;
  logger: Logger;
  registry: Registry;
  /** Told about suspended organizations and changed users. */
  keys: KeysClient;
  /** Issuer of tokens and origin of links in mails, without a trailing slash. */
  publicUrl: string;
  /** SERVICE_SECRET, the one in use first: seals what the database must not reveal. */
  serviceSecrets: readonly string[];
  /** JWT_PRIVATE_KEY; undefined: Auth makes a signing key and keeps it, sealed. */
  jwtPrivateKey: string | undefined;
  /** SMTP_URL; undefined: mails stay in the outbox. */
  smtpUrl: string | undefined;
};

type StartedAuth = {
  implementation: ServiceImpl<typeof AuthService>;
  /** Ends the work that calls other services. `close` does so too. */
  stop(): Promise<void>;
  close(): Promise<void>;
};

/** How often the signing keys are read, in milliseconds: at a rotation, of which the feed tells once, they may be out of reach. */
const signingKeysEveryMs = 5_000;

/** Starts Auth on its database: loads the signing keys, listens for changes, and starts sending the outbox. */
export async function startAuth(options: AuthOptions): Promise<StartedAuth> {
  const { connection, clock, logger, registry, publicUrl, serviceSecrets } = options;
  // If the start fails, everything opened is closed again, last first; otherwise `close` does so.
  await using opened = new AsyncDisposableStack();
  const database = await openServiceDatabase({ service: 'auth', connection, entities, logger });
  opened.defer(() => database.close());
  const secretBox = createSecretBox(serviceSecrets, 'model-gateway auth secret box');
  const { jwtPrivateKey } = options;
  const signingKeys = await patiently(() => openSigningKeys({ database, clock, logger, secretBox, jwtPrivateKey }));
  const feed = await openLeasedFeed({ database, connection, source: authEvents(database, clock), logger });
  opened.defer(() => feed.close());
  // Another replica may have rotated the keys; one that went on with a compromised key would let nobody sign in.
  const reloading = startRecurringWork({
    name: 'reading the signing keys',
    everyMs: signingKeysEveryMs,
    // They were just read, and the feed begins with its snapshot.
    firstAfterMs: signingKeysEveryMs,
    round: () => signingKeys.reload(),
    logger,
  });
  opened.defer(() => reloading.close());
  const rotations = followStream({
    name: 'the feed of rotations',
    open: (signal) => feed.watch(0n, signal),
    onMessage({ event }) {
      if (event?.case !== 'snapshot' && event?.case !== 'signingKeysChanged') return false;
      reloading.wake();
      return true;
    },
    logger,
  });
  opened.defer(() => rotations.close());
  const keyRefreshes = createKeyRefreshes({ database, keys: options.keys, logger });
  opened.defer(() => keyRefreshes.close());
  const outbox = createMailOutbox({ clock, secretBox, publicUrl, isSent: options.smtpUrl !== undefined });
  const from = `Model Gateway <no-reply@${mailDomain(publicUrl)}>`;
  const { smtpUrl } = options;
  if (smtpUrl !== undefined) {
    // Without a mail server nothing is overdue, however long it waits for an operator.
    const waiting = () => mailsWaiting(database, new Date(clock.now()));
    showOutbox(registry, { service: 'auth', outbox: 'mails', logger, read: waiting });
    // Not needed without a mail server.
    const { startMailSender } = await import('./mail/sender.ts');
    const sender = startMailSender({ database, clock, logger, outbox, smtpUrl, from });
    opened.defer(() => sender.close());
  }
  const housekeeping = startHousekeeping({ database, clock, logger });
  opened.defer(() => housekeeping.close());
  const passwords = createPasswordHasher(clock);
  opened.defer(() => passwords.close());
  const closing = opened.move();

  return {
    implementation: authService({
      database,
      clock,
      databaseNow: options.databaseNow ?? (async () => (await databaseNow(database)) + clock.now() - Date.now()),
      publicUrl,
      signingKeys,
      secretBox,
      passwords,
      throttle: createLoginThrottle({ database, clock, secret: serviceSecrets[0]!, logger }),
      feed,
      keyRefreshes,
      outbox,
    }),
    stop: () => keyRefreshes.close(),
    close: () => closing.disposeAsync(),
  };
}
