import { Worker } from 'node:worker_threads';
import type { Clock } from '#shared/clock.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
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

type Waiting = PromiseWithResolvers<unknown> & { task: HashingTask; sinceMs: number };

/** The thread starts with the first password, since many processes never get one. */
export function createPasswordHasher(clock: Clock): PasswordHasher {
  let thread: Worker | undefined;
  let served: Waiting | undefined;
  let line: Waiting[] = [];

  function startThread(): Worker {
    const started = new Worker(new URL('./hashing-thread.ts', import.meta.url));
    started.on('message', (answer) => {
      if (answer instanceof Error) served!.reject(answer);
      else served!.resolve(answer);
      serveNext();
    });
    let failure = new Error('the thread that hashes passwords has ended');
    started.on('error', (error) => {
      failure = error as Error;
    });
    started.on('exit', () => {
      for (const caller of [...(served === undefined ? [] : [served]), ...line]) caller.reject(failure);
      thread = undefined;
      served = undefined;
      line = [];
    });
    return started;
  }

  function serveNext(): void {
    served = line.shift();
    while (served !== undefined && clock.monotonic() - served.sinceMs > waitMsMax) {
      served.reject(tooMany());
      served = line.shift();
    }
    if (served === undefined) return;
    thread ??= startThread();
    thread.postMessage(served.task);
  }

  function ask<Answer>(task: HashingTask): Promise<Answer> {
    if (line.length >= waitingMax) throw tooMany();
    const caller: Waiting = { ...Promise.withResolvers<unknown>(), task, sinceMs: clock.monotonic() };
    line.push(caller);
    if (served === undefined) serveNext();
    return caller.promise as Promise<Answer>;
  }

  return {
    hash: async (password) => ask<string>({ work: 'hash', password }),
    async verify(passwordHash, password) {
      const right = await ask<boolean>({ work: 'verify', password, passwordHash });
      return right && passwordHash !== undefined;
    },
    async close() {
      await thread?.terminate();
    },
  };
}

const tooMany = (): GatewayError =>
  gatewayError(ErrorReason.RATE_LIMITED, 'Too many people are signing in at once. Try again in a moment.', {
    retryAfterMs: 1_000,
  });
