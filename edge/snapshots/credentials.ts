import type { Client } from '@connectrpc/connect';
import { Gauge, type Registry } from 'prom-client';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { uuidv7 } from '#shared/ids.ts';
import type { Logger } from '#shared/logger.ts';
import type { Credentials } from '../guards/access.ts';
import { createKeyCredentials } from './keys.ts';
import { createSessionCredentials, type SessionCredentials } from './sessions.ts';

type OpenCredentials = Credentials &
  Pick<SessionCredentials, 'signingKeys'> & {
    /** Whether both feeds are live, so that requests are decided without asking. */
    readonly isLive: boolean;
    close(): Promise<void>;
  };

/**
 * How every JWT begins (RFC 7519): base64 of `{"`. Such a token is a session's; all others are taken for keys, even another service's or
 * mistyped ones.
 */
const jwtStart = 'eyJ';

/** What this edge knows about API keys and sessions, kept current by the feeds of Keys and Auth. */
export function openCredentials(deps: {
  keys: Client<typeof KeysService>;
  auth: Client<typeof AuthService>;
  peppers: readonly KeyPepper[];
  publicUrl: string;
  registry: Registry;
  clock: Clock;
  logger: Logger;
}): OpenCredentials {
  const { keys, auth, peppers, publicUrl, registry, clock, logger } = deps;
  const edgeId = uuidv7();
  const apiKeys = createKeyCredentials({ keys, edgeId, peppers, clock, logger });
  const sessions = createSessionCredentials({ auth, edgeId, clock, logger, publicUrl });
  new Gauge({
    name: 'gateway_cached_keys',
    help: 'API keys that this process knows, so that requests are decided without asking Keys.',
    registers: [registry],
    collect() {
      this.set(apiKeys.size);
    },
  });
  new Gauge({
    name: 'gateway_feed_live',
    help: '1 while the feed of changes is followed; 0 while changes may have been missed, so that each request asks the service.',
    labelNames: ['feed'],
    aggregator: 'min',
    registers: [registry],
    collect() {
      this.set({ feed: 'keys' }, Number(apiKeys.isLive));
      this.set({ feed: 'sessions' }, Number(sessions.isLive));
    },
  });

  return {
    authenticate: (token, again) =>
      token.startsWith(jwtStart) ? sessions.authenticate(token) : apiKeys.authenticate(token, again),
    onEnded(principal, listener, change) {
      return principal.kind === 'key'
        ? apiKeys.onRevoked(principal, listener, change)
        : sessions.onEnded(principal, listener);
    },
    isFollowed: ({ kind }) => (kind === 'key' ? apiKeys : sessions).isLive,
    signingKeys: sessions.signingKeys,
    get isLive() {
      return apiKeys.isLive && sessions.isLive;
    },
    async close() {
      await Promise.all([apiKeys.close(), sessions.close()]);
    },
  };
}
