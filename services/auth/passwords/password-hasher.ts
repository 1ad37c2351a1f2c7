import { randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';
import { ErrorReason, gatewayError } from '#shared/errors.ts';

/** Hashes and checks passwords by argon2id, a few at a time, so that logins leave the processors to inference. */
export type PasswordHasher = {
  /** @throws GatewayError RATE_LIMITED when too many wait already. */
  hash(password: string): Promise<string>;
  /** Whether the password is the one behind the hash. Without a hash, for an unknown user, the same work is done and the answer is no. */
  verify(passwordHash: string | undefined, password: string): Promise<boolean>;
};

/** OWASP Password Storage Cheat Sheet: argon2id with 19 MiB, two passes, one lane. */
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/** How many callers may wait; at some 25 ms a hash the last of them waits a second or two. */
const waitingMax = 64;

export function createPasswordHasher(concurrency = 1): PasswordHasher {
  let running = 0;
  const waiting: (() => void)[] = [];
  const someHash = hash(randomBytes(32).toString('hex'), cost);
  // A failure shows where it is awaited.
  someHash.catch(() => {});

  async function inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (running >= concurrency) {
      if (waiting.length >= waitingMax) {
        throw gatewayError(ErrorReason.RATE_LIMITED, 'Too many people are signing in at once. Try again in a moment.', {
          retryAfterMs: 1_000,
        });
      }
      await new Promise<void>((resolve) => waiting.push(resolve));
    } else {
      running += 1;
    }
    try {
      return await work();
    } finally {
      // The place goes straight to the next in line.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  }

  return {
    hash: (password) => inTurn(() => hash(password, cost)),
    verify: (passwordHash, password) =>
      inTurn(async () => {
        const right = await verify(passwordHash ?? (await someHash), password);
        return right && passwordHash !== undefined;
      }),
  };
}
