import type { Clock } from '#shared/clock.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { createOneThread } from '#shared/one-thread.ts';
import type { HashingTask } from './hashing-thread.ts';

/**
 * Hashes and checks passwords with argon2id, one at a time in a thread of lower priority, so that logins leave the processors to inference.
 */
export type PasswordHasher = {
  /** @throws GatewayError RATE_LIMITED when too many are waiting. */
  hash(password: string): Promise<string>;
  /** Whether the password matches the hash. Without a hash, for an unknown user, the same work is done and the answer is no. */
  verify(passwordHash: string | undefined, password: string): Promise<boolean>;
  /** Ends the thread; waiting callers are refused. */
  close(): Promise<void>;
};

/** How many callers may wait; at some 25 ms a hash the last of them waits a second or two. */
const waitingMax = 64;
/** The queue is slower on a busy machine: after this long a caller is refused, before the deadline of its call. */
const waitMsMax = 5_000;

export function createPasswordHasher(clock: Clock): PasswordHasher {
  const thread = createOneThread(new URL('./hashing-thread.ts', import.meta.url));

  async function ask<Answer>(task: HashingTask): Promise<Answer> {
    if (thread.waiting >= waitingMax) throw tooMany();
    const sinceMs = clock.monotonic();
    return thread.inTurn(async (run) => {
      if (clock.monotonic() - sinceMs > waitMsMax) throw tooMany();
      return run<Answer>(task);
    });
  }

  return {
    hash: (password) => ask({ work: 'hash', password }),
    async verify(passwordHash, password) {
      const right = await ask<boolean>({ work: 'verify', password, passwordHash });
      return right && passwordHash !== undefined;
    },
    close: () => thread.close(),
  };
}

const tooMany = (): GatewayError =>
  gatewayError(ErrorReason.RATE_LIMITED, 'Too many people are signing in at once. Try again in a moment.', {
    retryAfterMs: 1_000,
  });
