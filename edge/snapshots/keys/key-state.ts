import type { WatchKeysResponse } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import type { AuthenticateResponse, Principal } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { tenantSuspended } from '#shared/errors.ts';
import type { KeyPrincipal } from '../../principal.ts';
import { type CachedKey, hasSecret, KeyCache } from './key-cache.ts';
import { digestName, type SecretDigests } from './key-loads.ts';
import { keyPrincipal } from './key-principal.ts';
import { endedKey } from './key-refusals.ts';
import { RecentChanges } from './recent-changes.ts';
import type { Revocations } from './revocations.ts';

type KeyStateDeps = {
  clock: Pick<Clock, 'monotonic'>;
  /** The most secrets that are remembered. */
  capacity: number;
  /** Whoever holds a connection open is told by them. */
  revocations: Pick<Revocations, 'revoke' | 'change' | 'checkAll'>;
};

/** What this edge knows of keys: answers of Keys, corrected by its feed. */
export class KeyState {
  readonly #deps: KeyStateDeps;
  readonly #cache: KeyCache;
  readonly #changes = new RecentChanges();
  #version = 0n;

  constructor(deps: KeyStateDeps) {
    this.#deps = deps;
    this.#cache = new KeyCache(deps.capacity);
  }

  /** The version of the last event. */
  get version(): bigint {
    return this.#version;
  }

  /** How many secrets are remembered. */
  get size(): number {
    return this.#cache.size;
  }

  find(tokenHash: string): CachedKey | undefined {
    return this.#cache.find(tokenHash);
  }

  /** Whether Keys said within the last seconds that nobody has the secret. */
  isUnknown(tokenHash: string): boolean {
    return this.#cache.isUnknown(tokenHash, this.#deps.clock.monotonic());
  }

  /**
   * Takes over an answer of Keys: returns the key, null when nobody has the secret, or undefined when the feed has meanwhile told something
   * newer, so that the answer must not be used.
   */
  take(answer: AuthenticateResponse, tokenHash: string, digests: SecretDigests): CachedKey | null | undefined {
    const { principal, version } = answer;
    if (!this.#changes.isCurrent(version, subjectsOf(principal))) return undefined;
    if (principal === undefined) {
      this.#cache.putUnknown(tokenHash, this.#deps.clock.monotonic());
      return null;
    }
    const entry: CachedKey = {
      tokenHash,
      principal: keyPrincipal(principal, digests.names),
      version,
      uses: 0,
      lastUsedMs: 0,
      recentlyUsed: false,
      next: undefined,
    };
    this.#cache.put(entry);
    return entry;
  }

  /** Takes over an event of the feed; once this returns, the edge decides accordingly. */
  apply({ version, event }: WatchKeysResponse): void {
    this.#version = version;
    switch (event.case) {
      case 'keyChanged': {
        const { principal } = event.value;
        if (principal === undefined) return;
        const digests = event.value.digests.map(digestName);
        // The principal may be newer than the change that caused the event.
        this.#changes.note(keySubject(principal.keyId), principal.version);
        const changed = keyPrincipal(principal, digests);
        const secrets = new Set(digests);
        this.#cache.replace(principal.keyId, secrets, changed, principal.version);
        this.#deps.revocations.change(secrets, changed, principal.version);
        return;
      }
      case 'keyRemoved':
        this.#removeKey(event.value.keyId, event.value.digests.map(digestName), event.value.wholeKey, version);
        return;
      case 'tenantChanged':
        this.#changeTenant(event.value.tenantId, event.value.suspended, version);
        return;
      case 'userChanged': {
        const { userId, role, isActive } = event.value;
        this.#changeUser(userId, role, isActive, version);
        return;
      }
      case 'cacheReset':
        this.#changes.reset(version);
        this.#cache.clear();
        this.#deps.revocations.checkAll();
        return;
      case 'heartbeat':
      case undefined:
        return;
      default:
        event satisfies never;
    }
  }

  #removeKey(keyId: string, digests: readonly string[], wholeKey: boolean, version: bigint): void {
    this.#changes.note(keySubject(keyId), version);
    const secrets = wholeKey ? null : new Set(digests);
    this.#cache.removeKey(keyId, secrets, version);
    this.#deps.revocations.revoke(
      (principal) => principal.keyId === keyId && (secrets === null || hasSecret(principal, secrets)),
      endedKey(),
    );
  }

  #changeTenant(tenantId: string, suspended: boolean, version: bigint): void {
    this.#changes.note(tenantSubject(tenantId), version);
    this.#cache.update(version, (principal) =>
      principal.tenantId === tenantId ? { ...principal, tenantSuspended: suspended } : principal,
    );
    if (suspended) this.#deps.revocations.revoke((principal) => principal.tenantId === tenantId, tenantSuspended());
  }

  #changeUser(userId: string, role: KeyPrincipal['role'], isActive: boolean, version: bigint): void {
    this.#cache.update(version, (principal) => {
      if (principal.userId !== userId) return principal;
      return isActive ? { ...principal, role } : 'remove';
    });
    if (isActive) {
      // An answer that nobody has a secret names no user, so none read before a reactivation may be believed.
      this.#changes.reset(version);
      this.#cache.forgetUnknown();
    } else {
      this.#changes.note(userSubject(userId), version);
      this.#deps.revocations.revoke((principal) => principal.userId === userId, endedKey());
    }
  }
}

const keySubject = (keyId: string): string => `key/${keyId}`;
const tenantSubject = (tenantId: string): string => `tenant/${tenantId}`;
const userSubject = (userId: string): string => `user/${userId}`;

/** The subjects that an answer depends on. That nobody has a secret holds until a reset: what is removed never comes back. */
const subjectsOf = (principal: Principal | undefined): readonly string[] =>
  principal === undefined
    ? []
    : [keySubject(principal.keyId), tenantSubject(principal.tenantId), userSubject(principal.userId)];
