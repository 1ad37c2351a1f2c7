import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { KeyPrincipal } from '../../principal.ts';
import { type CachedKey, KeyCache } from './key-cache.ts';

const entryOf = (tokenHash: string, version: bigint): CachedKey => ({
  tokenHash,
  principal: {
    keyId: `key of ${tokenHash}`,
    digests: [`digest of ${tokenHash}`],
    userId: `user ${tokenHash.at(-1)}`,
  } as unknown as KeyPrincipal,
  version,
  uses: 0,
  lastUsedMs: 0,
  recentlyUsed: false,
  next: undefined,
});

/** Two slots, each with secrets that only differ in the rest of their hash. */
const tokenHash = fc.tuple(fc.constantFrom('aaaa', '\u00ffaaa'), fc.nat(5)).map(([slot, rest]) => `${slot}${rest}`);
const step = fc.oneof(
  fc.record({ kind: fc.constant('put' as const), tokenHash }),
  fc.record({ kind: fc.constant('remove' as const), tokenHash }),
  fc.record({ kind: fc.constant('deactivate' as const), user: fc.nat(5) }),
  fc.record({ kind: fc.constant('clear' as const) }),
);

test('secrets in one slot are distinguished, whatever comes and goes', () => {
  const check = (steps: (typeof step extends fc.Arbitrary<infer Step> ? Step : never)[]): void => {
    const cache = new KeyCache(1_000);
    const truth = new Map<string, CachedKey>();
    let version = 0n;
    for (const taken of steps) {
      version += 1n;
      switch (taken.kind) {
        case 'put': {
          const entry = entryOf(taken.tokenHash, version);
          cache.put(entry);
          truth.set(taken.tokenHash, entry);
          break;
        }
        case 'remove':
          cache.removeKey(`key of ${taken.tokenHash}`, null, version);
          truth.delete(taken.tokenHash);
          break;
        case 'deactivate': {
          const userId = `user ${taken.user}`;
          cache.update(version, (principal) => (principal.userId === userId ? 'remove' : principal));
          for (const [hash, { principal }] of truth) if (principal.userId === userId) truth.delete(hash);
          break;
        }
        default:
          cache.clear();
          truth.clear();
      }
      expect(cache.size).toBe(truth.size);
      for (const slot of ['aaaa', '\u00ffaaa']) {
        for (let rest = 0; rest <= 5; rest++) {
          expect(cache.find(`${slot}${rest}`)).toBe(truth.get(`${slot}${rest}`));
        }
      }
    }
  };
  fc.assert(fc.property(fc.array(step, { maxLength: 30 }), check), { numRuns: 300 });
});

test('a full cache evicts what is not used, and keeps to its capacity', () => {
  const cache = new KeyCache(4);
  for (let index = 0; index < 4; index++) cache.put(entryOf(`aaaa${index}`, 1n));
  for (let index = 0; index < 100; index++) {
    cache.put(entryOf(`b${String(index).padStart(3, '0')}`, 1n));
    expect(cache.size).toBe(4);
    expect(cache.find(`b${String(index).padStart(3, '0')}`)).toBeDefined();
  }
});
