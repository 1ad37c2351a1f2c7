import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isKeySecret, keyPreview, makeKeySecret } from './key-secret.ts';

const count = process.env.LONG === '1' ? 1_000_000 : 20_000;

test(`${count} secrets have the promised form, and no two are equal`, { timeout: 600_000 }, () => {
  const seen = new Set<string>();
  for (let index = 0; index < count; index++) {
    const secret = makeKeySecret(randomBytes(32));
    if (!/^sk-proj-[0-9A-Za-z]{49}$/.test(secret) || !isKeySecret(secret)) throw new Error(`${secret} is no secret`);
    seen.add(secret);
  }
  expect(seen.size).toBe(count);
});

const random = fc.uint8Array({ minLength: 32, maxLength: 32 });

test('different random bits make different secrets, including the first and the last bit', () => {
  fc.assert(
    fc.property(random, fc.nat(255), (bytes, bit) => {
      const other = Uint8Array.from(bytes);
      other[bit >> 3]! ^= 1 << (bit & 7);
      expect(makeKeySecret(other)).not.toBe(makeKeySecret(bytes));
    }),
  );
});

test('a secret with one wrong character is recognized as invalid without a look-up', () => {
  fc.assert(
    fc.property(random, fc.nat(56), fc.constantFrom(...'0aZ-_ é'), (bytes, place, character) => {
      const secret = makeKeySecret(bytes);
      const wrong = secret.slice(0, place) + character + secret.slice(place + 1);
      expect(isKeySecret(wrong)).toBe(wrong === secret);
    }),
  );
});

test('a preview shows the first and the last four characters', () => {
  const secret = makeKeySecret(new Uint8Array(32).fill(9));
  expect(keyPreview(secret)).toBe(`sk-proj-${secret.slice(8, 12)}...${secret.slice(-4)}`);
});
