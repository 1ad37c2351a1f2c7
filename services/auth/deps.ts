import type { ServiceImpl } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { LeasedFeed } from '#shared/leased-feed/leased-feed.ts';
import type { SecretBox } from '#shared/secret-box.ts';
import type { AuthEvent } from './feed/auth-events.ts';
import type { KeyRefreshes } from './feed/key-refreshes.ts';
import type { MailOutbox } from './mail/outbox.ts';
import type { LoginThrottle } from './passwords/login-throttle.ts';
import type { PasswordHasher } from './passwords/password-hasher.ts';
import type { SigningKeys } from './tokens/signing-keys.ts';

/** What Auth's RPCs depend on; each takes only what it uses. */
export type AuthDeps = {
  database: ServiceDatabase;
  clock: Clock;
  /** The time by the database's clock, in milliseconds, for what is shorter than the clocks of two replicas may differ. */
  databaseNow(): Promise<number>;
  /** Issuer of tokens and origin of links in mails, without a trailing slash. */
  publicUrl: string;
  signingKeys: SigningKeys;
  secretBox: SecretBox;
  passwords: PasswordHasher;
  throttle: LoginThrottle;
  feed: LeasedFeed<AuthEvent>;
  keyRefreshes: KeyRefreshes;
  outbox: MailOutbox;
};

/** The implementation of one RPC. */
export type AuthRpc<Name extends keyof ServiceImpl<typeof AuthService>> = ServiceImpl<typeof AuthService>[Name];
