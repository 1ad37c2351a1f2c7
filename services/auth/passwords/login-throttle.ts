import { createHmac, hkdfSync } from 'node:crypto';
import { type Clock, clockDifferenceMsMax } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import type { Logger } from '#shared/logger.ts';
import { hasSignedInFrom } from '../db/session.repository.ts';
import { accountBackoff, addressBackoff, addressSource, type BackoffPolicy } from '../domain/login-backoff.ts';

/** Slows down password guessing, by account and by address, across all replicas. */
export type LoginThrottle = {
  /**
   * Makes an attempt at an account: `judge` returns null when the password is wrong. It counts as failed before it is made, so that
   * simultaneous ones cannot slip past each other, and then no longer if it is right, or fails, which reveals nothing about the password.
   * Returns what `judge` does. @throws GatewayError RATE_LIMITED when it must wait.
   */
  attempt<Result>(at: Attempt, judge: () => Promise<Result | null>): Promise<Result | null>;
  /** Counts a request that causes mails. @throws GatewayError RATE_LIMITED when the address asks too often. */
  countAddress(ip: string): Promise<void>;
  /**
   * Forgets an account's failures from unknown addresses, and from this one, from where its owner has set a password by mail. Never rejects: at
   * worst somebody waits in vain.
   */
  forgive(at: Attempt): Promise<void>;
};

/** Which account, and from where. */
type Attempt = { email: string; ip: string };

const tooManyAttempts = 'Too many wrong passwords, or attempts at once.';

type Deps = { database: ServiceDatabase; clock: Clock; secret: string; logger: Pick<Logger, 'warn'> };

export function createLoginThrottle(deps: Deps): LoginThrottle {
  const { database, clock, logger } = deps;
  const key = Buffer.from(hkdfSync('sha256', deps.secret, '', 'model-gateway auth throttle', 32));
  // People type passwords into the address field; neither is stored.
  const subject = (...parts: string[]): Buffer => createHmac('sha256', key).update(parts.join('\0')).digest();
  const addressSubject = (ip: string): Buffer => subject('address', addressSource(ip));
  const accountSubject = ({ email }: Attempt): Buffer => subject('account', email);
  /** Where the account's owner has signed in before, other people's failures do not count. */
  const knownSubject = ({ email, ip }: Attempt): Buffer => subject('account from', email, addressSource(ip));

  const count = async (counted: Buffer, policy: BackoffPolicy, tooMany: string): Promise<void> => {
    const now = new Date(clock.now());
    // Not blocked is stored as blocked until 1970, not until now: a simultaneous attempt may have read its clock earlier. A block that ends
    // later than any can was made before the clock was set back.
    const { rowCount } = await database.query({
      name: 'auth-throttle-count',
      text: `insert into login_throttles as stored (subject, failures, last_failure_at, blocked_until)
        values ($1, 1, $2, to_timestamp(0))
        on conflict (subject) do update set
          failures = case when stored.last_failure_at < $2 - $6 * interval '1 ms' then 1 else stored.failures + 1 end,
          last_failure_at = $2,
          blocked_until = case
            when stored.last_failure_at < $2 - $6 * interval '1 ms' or stored.failures < $3 then to_timestamp(0)
            else $2 + least($5, $4 * power(2, least(stored.failures - $3, 30))) * interval '1 ms' end
        where stored.blocked_until <= $2 or stored.blocked_until > $2 + ($5 + ${clockDifferenceMsMax}) * interval '1 ms'
        returning 1`,
      values: [counted, now, policy.freeFailures, policy.waitMsMin, policy.waitMsMax, policy.forgetAfterMs],
    });
    if (rowCount === 0) throw await refusal(counted, tooMany);
  };

  const refusal = async (counted: Buffer, tooMany: string): Promise<GatewayError> => {
    const { rows } = await database.query<{ blocked_until: Date }>({
      text: 'select blocked_until from login_throttles where subject = $1',
      values: [counted],
    });
    const waitMs = (rows[0]?.blocked_until.getTime() ?? 0) - clock.now();
    return gatewayError(ErrorReason.RATE_LIMITED, `${tooMany} Try again later.`, {
      retryAfterMs: Math.max(1_000, waitMs),
    });
  };

  const forget = async (...forgotten: Buffer[]): Promise<void> => {
    await database.query({ text: 'delete from login_throttles where subject = any($1)', values: [forgotten] });
  };

  // An attempt that was counted was not blocked.
  const uncount = async (counted: Buffer): Promise<void> => {
    await database.query({
      text: `update login_throttles set failures = failures - 1, blocked_until = to_timestamp(0)
        where subject = $1 and failures > 0`,
      values: [counted],
    });
  };

  /** What it follows is done, or has failed for a reason of its own; a repeat would find a reset link used. */
  const correct = async (work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (err) {
      logger.warn({ err }, 'the count of failed logins could not be corrected; somebody may have to wait in vain');
    }
  };

  return {
    async attempt(at, judge) {
      const address = addressSubject(at.ip);
      const account = (await hasSignedInFrom(database, at)) ? knownSubject(at) : accountSubject(at);
      await count(address, addressBackoff, tooManyAttempts);
      await count(account, accountBackoff, tooManyAttempts).catch(async (error) => {
        // Nobody judges it, so it is no guess, for which everybody at the address would have to wait.
        await correct(() => uncount(address));
        throw error;
      });
      const result = await judge().catch(async (error) => {
        await correct(async () => {
          await uncount(account);
          await uncount(address);
        });
        throw error;
      });
      if (result !== null) {
        await correct(async () => {
          await forget(account);
          // Only this attempt is taken back: a guesser's own account must not clear the address.
          await uncount(address);
        });
      }
      return result;
    },
    countAddress: (ip) =>
      count(
        subject('mail asked from', addressSource(ip)),
        addressBackoff,
        'Too many emails were requested from your IP address.',
      ),
    forgive: (at) => correct(() => forget(accountSubject(at), knownSubject(at))),
  };
}
