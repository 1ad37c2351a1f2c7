import { hash } from 'node:crypto';
import type { Client } from '@connectrpc/connect';
import type { WatchKeysResponse } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { AuthenticateResponse } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { KeyPepper } from '#shared/env.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { isKeySecret } from '#shared/key-secret.ts';
import type { Logger } from '#shared/logger.ts';
import type { KeyPrincipal } from '../principal.ts';
import { FeedClient } from './keys/feed-client.ts';
import { type CachedKey, KeyCache } from './keys/key-cache.ts';
import { cannotTell, digestName, digestsOf, KeyLoads, type SecretDigests } from './keys/key-loads.ts';
import { keyPrincipal } from './keys/key-principal.ts';
import { KeyUses } from './keys/key-uses.ts';
import { Lease } from './keys/lease.ts';
import { RecentChanges } from './keys/recent-changes.ts';
import { Revocations } from './keys/revocations.ts';

/** How often uses are reported, in milliseconds. */
const reportEveryMs = 1_000;
/** Asking again helps when a change came in between; a key that changes without end is not told apart from an outage. */
const attemptsMax = 4;

export type KeySnapshotDeps = {
  keys: Pick<
    Client<typeof KeysService>,
    'authenticate' | 'watchKeys' | 'acknowledgeKeys' | 'recordKeyUse' | 'getPrincipal'
  >;
  /** Newest first, as Keys has them. */
  peppers: readonly KeyPepper[];
  clock: Clock;
  logger: Logger;
  /** The most secrets that are remembered. */
  capacity?: number;
};

/**
 * The API keys which this edge knows. While the feed runs and the lease holds it decides from memory; otherwise each request
 * asks Keys. A key is never refused as invalid because Keys is out of reach: that is OVERLOADED.
 */
export class KeySnapshot {
  readonly #peppers: readonly KeyPepper[];
  readonly #clock: Clock;
  readonly #lease: Lease;
  readonly #cache: KeyCache;
  readonly #changes = new RecentChanges();
  readonly #loads: KeyLoads;
  readonly #loading = new Map<string, Promise<CachedKey>>();
  readonly #uses: KeyUses;
  readonly #revocations: Revocations;
  readonly #feed: FeedClient;
  #reportTimer: NodeJS.Timeout | undefined;

  constructor({ keys, peppers, clock, logger, capacity = 200_000 }: KeySnapshotDeps) {
    this.#peppers = peppers;
    this.#clock = clock;
    this.#lease = new Lease(clock);
    this.#cache = new KeyCache(capacity);
    this.#loads = new KeyLoads(keys);
    this.#uses = new KeyUses(keys, logger);
    this.#revocations = new Revocations(keys, logger);
    this.#feed = new FeedClient({ keys, lease: this.#lease, clock, logger, apply: (event) => this.#apply(event) });
  }

  /** Begins to follow the feed and to report uses. */
  start(): void {
    this.#feed.start();
    this.#reportTimer = setInterval(() => this.#uses.report(), reportEveryMs).unref();
  }

  /** Ends the feed and reports the last uses. */
  async stop(): Promise<void> {
    clearInterval(this.#reportTimer);
    await this.#feed.stop();
    await this.#uses.report();
  }

  /** Whether requests are decided from memory at the moment. */
  get isLeased(): boolean {
    return this.#lease.isValid;
  }

  /** How many secrets are remembered. */
  get size(): number {
    return this.#cache.size;
  }

  /** Credentials.authenticate (guards/access.ts) for API keys. */
  authenticate(token: string): KeyPrincipal | Promise<KeyPrincipal> {
    const tokenHash = hash('sha256', token, 'base64');
    const leased = this.#lease.isValid;
    if (leased) {
      const entry = this.#cache.find(tokenHash);
      if (entry !== undefined) return this.#admit(entry);
      if (this.#cache.isUnknown(tokenHash, this.#clock.monotonic())) throw invalidKey();
    }
    if (!isKeySecret(token)) throw invalidKey();
    return this.#load(token, tokenHash, leased).then((entry) => this.#admit(entry));
  }

  /**
   * Calls back once the principal's key is deleted or revoked, its user deactivated or its organization suspended, so that a
   * connection which stays open can be closed. Answers how to stop listening.
   */
  onRevoked(principal: KeyPrincipal, listener: () => void): () => void {
    return this.#revocations.listen(principal, listener);
  }

  #admit(entry: CachedKey): KeyPrincipal {
    const nowMs = this.#clock.now();
    if (entry.principal.expiresAtMs <= nowMs) {
      throw gatewayError(ErrorReason.EXPIRED_API_KEY, 'This API key has expired.');
    }
    this.#uses.count(entry, nowMs);
    return entry.principal;
  }

  /**
   * With a lease requests for one key share a load, since a change that comes meanwhile makes it ask again. Without one each
   * asks for itself: another's answer may have been read before this request came, and before a deletion was answered.
   */
  #load(token: string, tokenHash: string, leased: boolean): Promise<CachedKey> {
    if (!leased) return this.#ask(tokenHash, digestsOf(token, this.#peppers));
    const running = this.#loading.get(tokenHash);
    if (running !== undefined) return running;
    const load = this.#ask(tokenHash, digestsOf(token, this.#peppers)).finally(() => this.#loading.delete(tokenHash));
    this.#loading.set(tokenHash, load);
    return load;
  }

  async #ask(tokenHash: string, digests: SecretDigests): Promise<CachedKey> {
    for (let attempt = 1; attempt <= attemptsMax; attempt++) {
      const answer = await this.#loads.ask(digests);
      if (!this.#changes.isCurrent(answer.version, subjectsOf(answer, digests))) continue;
      if (answer.principal === undefined) {
        this.#cache.putUnknown(tokenHash, this.#clock.monotonic());
        throw invalidKey();
      }
      const entry: CachedKey = {
        tokenHash,
        digests: digests.names,
        principal: keyPrincipal(answer.principal),
        version: answer.version,
        uses: 0,
        lastUsedMs: 0,
        recentlyUsed: false,
      };
      this.#cache.put(entry);
      return entry;
    }
    throw cannotTell(`the key changed ${attemptsMax} times while it was looked up`);
  }

  #apply({ version, event }: WatchKeysResponse): void {
    switch (event.case) {
      case 'keyChanged': {
        const { principal, digests } = event.value;
        if (principal === undefined) return;
        this.#changes.note(keySubject(principal.keyId), version);
        this.#cache.replace(principal.keyId, new Set(digests.map(digestName)), keyPrincipal(principal), version);
        return;
      }
      case 'keyRemoved': {
        const { keyId, wholeKey } = event.value;
        const digests = event.value.digests.map(digestName);
        for (const digest of digests) this.#changes.note(digest, version);
        this.#changes.note(keySubject(keyId), version);
        this.#cache.removeKey(keyId, wholeKey ? null : new Set(digests), version);
        if (wholeKey) this.#revocations.revoke((principal) => principal.keyId === keyId);
        return;
      }
      case 'tenantChanged': {
        const { tenantId, suspended } = event.value;
        this.#changes.note(tenantSubject(tenantId), version);
        this.#cache.update(version, (principal) =>
          principal.tenantId === tenantId ? { ...principal, tenantSuspended: suspended } : principal,
        );
        if (suspended) this.#revocations.revoke((principal) => principal.tenantId === tenantId);
        return;
      }
      case 'userChanged': {
        const { userId, role, isActive } = event.value;
        // Answers that nobody has a secret name no user, so none from before a reactivation may stand.
        if (isActive) this.#changes.reset(version);
        else this.#changes.note(userSubject(userId), version);
        this.#cache.update(version, (principal) => {
          if (principal.userId !== userId) return principal;
          return isActive ? { ...principal, role } : 'remove';
        });
        if (isActive) this.#cache.forgetUnknown();
        else this.#revocations.revoke((principal) => principal.userId === userId);
        return;
      }
      case 'cacheReset':
        this.#changes.reset(version);
        this.#cache.clear();
        void this.#revocations.checkAll();
        return;
      case 'heartbeat':
      case undefined:
        return;
      default:
        event satisfies never;
    }
  }
}

const invalidKey = () =>
  gatewayError(ErrorReason.INVALID_API_KEY, 'Incorrect API key provided. Check the key, or create a new one.');

const keySubject = (keyId: string): string => `key/${keyId}`;
const tenantSubject = (tenantId: string): string => `tenant/${tenantId}`;
const userSubject = (userId: string): string => `user/${userId}`;

/** What an answer depends on. A negative one depends on the digests alone: KeyRemoved names them, and nothing else makes a key known. */
const subjectsOf = ({ principal }: AuthenticateResponse, digests: SecretDigests): readonly string[] =>
  principal === undefined
    ? digests.names
    : [...digests.names, keySubject(principal.keyId), tenantSubject(principal.tenantId), userSubject(principal.userId)];
