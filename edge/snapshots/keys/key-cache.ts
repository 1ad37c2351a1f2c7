import type { KeyPrincipal } from '../../principal.ts';

/** A secret that the edge knows. */
export type CachedKey = {
  /** SHA-256 of the secret. */
  tokenHash: string;
  principal: KeyPrincipal;
  /** The version of Keys' data at which `principal` was true. */
  version: bigint;
  /** Uses since they were last reported, and the moment of the last. */
  uses: number;
  lastUsedMs: number;
  /** Set by each use; cleared by the cache when it looks for room. */
  recentlyUsed: boolean;
  /** Another secret in the same slot of the cache. */
  next: CachedKey | undefined;
};

/**
 * The hash's first 30 bits: a Map finds a small integer at once, but has to hash a new string and compare it with others all over the
 * memory.
 */
const slotOf = (tokenHash: string): number =>
  tokenHash.charCodeAt(0) |
  (tokenHash.charCodeAt(1) << 8) |
  (tokenHash.charCodeAt(2) << 16) |
  ((tokenHash.charCodeAt(3) & 0x3f) << 24);

/** How long the edge believes that nobody has a secret, in milliseconds. */
const unknownForMs = 10_000;
const unknownMax = 10_000;

/** How many recently used entries one insertion passes over before it displaces one anyway. */
const sparedMax = 32;

/** Whether a principal was made for a secret with one of the digests. */
export const hasSecret = (principal: KeyPrincipal, digests: ReadonlySet<string>): boolean =>
  principal.digests.some((digest) => digests.has(digest));

/**
 * Secrets and their principals by the secret's hash. Bounded: those unused for longest give way. Secrets that nobody has are kept apart, so
 * that a flood of them displaces no key.
 */
export class KeyCache {
  readonly #capacity: number;
  /** By slot, each the first of a chain; from the least to the most recently inserted or spared. */
  readonly #slots = new Map<number, CachedKey>();
  #size = 0;
  readonly #byKeyId = new Map<string, Set<CachedKey>>();
  /** Until when to believe it, on the monotonic clock; in the order of insertion, hence of time. */
  readonly #unknown = new Map<string, number>();

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#size;
  }

  find(tokenHash: string): CachedKey | undefined {
    const entry = this.#entry(tokenHash);
    if (entry !== undefined) entry.recentlyUsed = true;
    return entry;
  }

  #entry(tokenHash: string): CachedKey | undefined {
    let entry = this.#slots.get(slotOf(tokenHash));
    while (entry !== undefined && entry.tokenHash !== tokenHash) entry = entry.next;
    return entry;
  }

  put(entry: CachedKey): void {
    this.#remove(this.#entry(entry.tokenHash));
    if (this.#size >= this.#capacity) this.#makeRoom();
    this.#unknown.delete(entry.tokenHash);
    const slot = slotOf(entry.tokenHash);
    entry.next = this.#slots.get(slot);
    this.#slots.set(slot, entry);
    this.#size += 1;
    const ofKey = this.#byKeyId.get(entry.principal.keyId);
    if (ofKey === undefined) this.#byKeyId.set(entry.principal.keyId, new Set([entry]));
    else ofKey.add(entry);
  }

  isUnknown(tokenHash: string, monotonicMs: number): boolean {
    const until = this.#unknown.get(tokenHash);
    return until !== undefined && monotonicMs < until;
  }

  putUnknown(tokenHash: string, monotonicMs: number): void {
    this.#unknown.delete(tokenHash);
    this.#unknown.set(tokenHash, monotonicMs + unknownForMs);
    if (this.#unknown.size > unknownMax) this.#unknown.delete(this.#unknown.keys().next().value!);
  }

  /** A secret that nobody had may become valid again, as when a user is reactivated. */
  forgetUnknown(): void {
    this.#unknown.clear();
  }

  /** Replaces what is known of a key's secrets by what is newer. */
  replace(keyId: string, digests: ReadonlySet<string>, principal: KeyPrincipal, version: bigint): void {
    for (const entry of this.#byKeyId.get(keyId) ?? []) {
      if (entry.version < version && hasSecret(entry.principal, digests)) {
        entry.principal = { ...principal, digests: entry.principal.digests };
        entry.version = version;
      }
    }
  }

  /** Updates each principal; walks the whole cache. */
  update(version: bigint, change: (principal: KeyPrincipal) => KeyPrincipal | 'remove'): void {
    for (const first of this.#slots.values()) {
      for (let entry: CachedKey | undefined = first; entry !== undefined; entry = entry.next) {
        if (entry.version >= version) continue;
        const changed = change(entry.principal);
        if (changed === 'remove') this.#remove(entry);
        else entry.principal = changed;
      }
    }
  }

  /** Removes a key's secrets: all of them, or those with one of the digests. */
  removeKey(keyId: string, digests: ReadonlySet<string> | null, version: bigint): void {
    for (const entry of [...(this.#byKeyId.get(keyId) ?? [])]) {
      const named = digests === null || hasSecret(entry.principal, digests);
      if (named && entry.version < version) this.#remove(entry);
    }
  }

  clear(): void {
    this.#slots.clear();
    this.#size = 0;
    this.#byKeyId.clear();
    this.#unknown.clear();
  }

  /** Second chance: an entry that was used since it was last looked at is spared once, but the search is short. */
  #makeRoom(): void {
    let spared = 0;
    for (const [slot, entry] of this.#slots) {
      if (!entry.recentlyUsed || spared === sparedMax) {
        this.#remove(entry);
        return;
      }
      spared += 1;
      entry.recentlyUsed = false;
      this.#slots.delete(slot);
      this.#slots.set(slot, entry);
    }
  }

  #remove(entry: CachedKey | undefined): void {
    if (entry === undefined) return;
    const slot = slotOf(entry.tokenHash);
    let before: CachedKey | undefined = this.#slots.get(slot);
    if (before !== entry) {
      while (before!.next !== entry) before = before!.next;
      before!.next = entry.next;
    } else if (entry.next === undefined) this.#slots.delete(slot);
    else this.#slots.set(slot, entry.next);
    this.#size -= 1;
    const ofKey = this.#byKeyId.get(entry.principal.keyId);
    ofKey?.delete(entry);
    if (ofKey?.size === 0) this.#byKeyId.delete(entry.principal.keyId);
  }
}
