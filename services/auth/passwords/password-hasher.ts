import type { Clock } from '#shared/clock.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { createOneThread } from '#shared/one-thread.ts';
import { turnsByName } from '#shared/turns-by-name.ts';
import type { HashingTask } from './hashing-thread.ts';

/**
 * Hashes and checks passwords with argon2id, one at a time in a thread of lower priority, so that logins leave the processors to inference.
 * Those of one account, or of whatever else stands for it, wait for each other: only the first of them waits in the queue of all.
 */
export type PasswordHasher = {
  /** @throws GatewayError RATE_LIMITED when too many are waiting. */
  hash(account: string, password: string): Promise<string>;
  /** Whether the password matches the hash. Without a hash, for an unknown user, the same work is done and the answer is no. */
  verify(account: string, passwordHash: string | undefined, password: string): Promise<boolean>;
  /** Ends the thread; waiting callers are refused. */
  close(): Promise<void>;
};

/** How many callers may wait; at some 25 ms a hash the last of them waits a second or two. */
const waitingMax = 64;
/**
 * How many of one account may wait. Whoever does not know its password gets to a handful of attempts at a time (login-backoff.ts), so that
 * nobody fills this for somebody else.
 */
const waitingOfOneMax = 32;
/** The queue is slower on a busy machine: after this long a caller is refused, before the deadline of its call. */
const waitMsMax = 5_000;

export function createPasswordHasher(clock: Clock): PasswordHasher {
  const thread = createOneThread(new URL('./hashing-thread.ts', import.meta.url));

  const turnsOf = turnsByName(1, { max: waitingOfOneMax, what: 'sign-ins and passwords of one account' });

  async function ask<Answer>(account: string, task: HashingTask): Promise<Answer> {
    const sinceMs = clock.monotonic();
    return turnsOf.run(account, never, () => inQueue(task, sinceMs));
  }

  async function inQueue<Answer>(task: HashingTask, sinceMs: number): Promise<Answer> {
    if (thread.waiting >= waitingMax) throw tooMany();
    return thread.inTurn(async (run) => {
      if (clock.monotonic() - sinceMs > waitMsMax) throw tooMany();
      return run<Answer>(task);
    });
  }

  return {
    hash: (account, password) => ask(account, { work: 'hash', password }),
    async verify(account, passwordHash, password) {
      const right = await ask<boolean>(account, { work: 'verify', password, passwordHash });
      return right && passwordHash !== undefined;
    },
    close: () => thread.close(),
  };
}

/** Whoever left is still judged: an attempt counts whether or not its answer is read. */
const never = new AbortController().signal;

const tooMany = (): GatewayError =>
  gatewayError(ErrorReason.RATE_LIMITED, 'Too many people are signing in at once. Try again in a moment.', {
    retryAfterMs: 1_000,
  });
