import { hash } from 'node:crypto';
import type { Client } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { KeyPepper } from '#shared/env/secrets.ts';
import type { GatewayError } from '#shared/errors.ts';
import { isKeySecret, pepperFingerprint } from '#shared/key-secret.ts';
import type { Logger } from '#shared/logger.ts';
import { asService } from '#shared/rpc/caller.ts';
import type { KeyPrincipal } from '../principal.ts';
import { followFeed } from './feed-follower.ts';
import type { CachedKey } from './keys/key-cache.ts';
import { cannotTell, digestsOf, KeyLoads } from './keys/key-loads.ts';
import { expiredKey, invalidKey } from './keys/key-refusals.ts';
import { KeyState } from './keys/key-state.ts';
import { KeyUses } from './keys/key-uses.ts';
import { Revocations } from './keys/revocations.ts';
import { SingleFlight } from './single-flight.ts';

/** The API key half of the edge's credentials. */
export type KeyCredentials = {
  /**
   * The principal of a secret: at once when the edge knows it and the feed is live, else a promise. INVALID_API_KEY, EXPIRED_API_KEY, or
   * OVERLOADED when Keys is out of reach: not knowing says nothing about the key. `again`: a further check within the same request, which
   * has already been counted as a use of the key.
   */
  authenticate(token: string, again?: boolean): KeyPrincipal | Promise<KeyPrincipal>;
  /**
   * Calls back, once and with the refusal, when the principal's secret is no longer served, even if that happened before this call: its key
   * is deleted or revoked, it or its grace period has expired, its user is deactivated or its organization suspended. A connection that it
   * holds open is then closed. Calls `change` with what the key may do now whenever that may have changed. Returns a function that stops
   * listening.
   */
  onRevoked(
    principal: KeyPrincipal,
    listener: (refusal: GatewayError) => void,
    change?: (principal: KeyPrincipal) => void,
  ): () => void;
  /** Whether the feed is live, so that requests are decided without asking. */
  readonly isLive: boolean;
  /** How many secrets are remembered. */
  readonly size: number;
  /** Leaves the feed and reports the last uses. */
  close(): Promise<void>;
};

type KeyCredentialsDeps = {
  keys: Pick<Client<typeof KeysService>, 'authenticate' | 'watchKeys' | 'acknowledgeKeys' | 'recordKeyUse'>;
  /** The id of this process (UUID), made anew at each start. */
  edgeId: string;
  /** As Keys has them, the one in use first. */
  peppers: readonly KeyPepper[];
  clock: Clock;
  logger: Logger;
  /** The most secrets that are remembered; each takes about a kilobyte. */
  capacity?: number;
};

/** How often uses are reported, in milliseconds. */
const reportEveryMs = 1_000;
const acknowledgeTimeoutMs = 1_000;
/** Asking again helps when a change came in between; a key that keeps changing is treated like an outage. */
const attemptsMax = 4;

/**
 * Follows Keys' feed from now on. While it is live, keys are decided from memory; otherwise each request asks Keys, so that a key deleted
 * meanwhile is never served.
 */
export function createKeyCredentials(deps: KeyCredentialsDeps): KeyCredentials {
  const { keys, edgeId, peppers, clock, logger, capacity = 200_000 } = deps;
  const asEdge = asService('edge');
  const fingerprints = peppers.map((pepper) => ({ version: pepper.version, fingerprint: pepperFingerprint(pepper) }));
  const revocations = new Revocations({ keys, clock, logger });
  const state = new KeyState({ clock, capacity, revocations });
  /** The process of Keys that granted the lease: only that one may extend it while its database is away. */
  let leaseHolder = '';
  /** The acknowledgement sent last; that of a former stream may still be under way. */
  let latest = 0;
  let underWay = 0;
  const feed = followFeed(
    {
      name: 'the feed of keys',
      watch: (signal) =>
        keys.watchKeys({ edgeId, afterVersion: state.version, peppers: fingerprints }, { ...asEdge, signal }),
      acknowledge: async (version) => {
        // Unknown until the answer: the lease may have been granted by another process, even if the request fails.
        const holder = leaseHolder;
        leaseHolder = '';
        const place = ++latest;
        const wasAlone = underWay === 0;
        underWay += 1;
        try {
          const answer = await keys.acknowledgeKeys(
            { edgeId, version, leaseHolder: holder },
            { ...asEdge, timeoutMs: acknowledgeTimeoutMs },
          );
          // Of two at once, nobody here can tell which was granted last.
          if (wasAlone && place === latest) leaseHolder = answer.leaseHolder;
          return answer;
        } finally {
          underWay -= 1;
        }
      },
      leave: () => keys.acknowledgeKeys({ edgeId, leaving: true }, { ...asEdge, timeoutMs: acknowledgeTimeoutMs }),
      apply: (event) => state.apply(event),
    },
    { clock, logger },
  );
  const loads = new KeyLoads(keys);
  /** By the hash of the secret. */
  const asking = new SingleFlight<CachedKey>();
  const uses = new KeyUses(keys, logger);
  const reportTimer = setInterval(() => uses.report(), reportEveryMs).unref();

  /** Expiry needs no event, so each request checks it. */
  const admit = (entry: CachedKey, again: boolean): KeyPrincipal => {
    const nowMs = clock.now();
    if (entry.principal.expiresAtMs <= nowMs) throw expiredKey();
    if (!again) uses.count(entry, nowMs);
    return entry.principal;
  };

  const ask = async (token: string, tokenHash: string): Promise<CachedKey> => {
    const digests = digestsOf(token, peppers);
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      const entry = state.take(await loads.ask(digests), tokenHash, digests);
      if (entry === null) throw invalidKey();
      if (entry !== undefined) return entry;
    }
    throw cannotTell(`the key changed ${attemptsMax} times while it was looked up`);
  };

  return {
    authenticate(token, again = false) {
      const tokenHash = hash('sha256', token, 'latin1');
      const live = feed.isLive;
      if (live) {
        const entry = state.find(tokenHash);
        if (entry !== undefined) return admit(entry, again);
        if (state.isUnknown(tokenHash)) throw invalidKey();
      }
      if (!isKeySecret(token)) throw invalidKey();
      // A change that arrives while Keys is asked makes this ask again, so with a live feed requests for one key may share the answer.
      // Without the feed, a shared answer may be older than a deletion that was answered before this request came.
      const answer = live ? asking.run(tokenHash, () => ask(token, tokenHash)) : ask(token, tokenHash);
      return answer.then((entry) => admit(entry, again));
    },
    onRevoked: (principal, listener, change) => revocations.listen(principal, listener, change),
    get isLive() {
      return feed.isLive;
    },
    get size() {
      return state.size;
    },
    async close() {
      clearInterval(reportTimer);
      await feed.close();
      await revocations.close();
      await uses.close();
    },
  };
}
