import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { AuthSnapshot, SessionEnded, UserChanged, WatchAuthResponse } from '#gen/modelgateway/auth/v1/feed_pb.ts';
import type { SigningKey } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { AccessClaims, TokenVerifier } from './token-verifier.ts';

/** Who is no longer served: a session, all sessions of a user, those of a suspended organization, or, behind a compromised signing key, all. */
export type Ended = { sessionId: string } | { userId: string } | { tenantId: string } | { everybody: true };

/** How many events pass before what is out of date is forgotten. */
const sweepEvery = 1_000;

/** What Auth's feed has told: suspended organizations, ended sessions, changed users. */
export class SessionState {
  readonly #clock: Clock;
  readonly #verifier: TokenVerifier;
  readonly #onEnded: (ended: Ended) => void;
  #suspendedTenants = new Set<string>();
  /** Until when to remember, by session. */
  #endedSessions = new Map<string, number>();
  #changedUsers = new Map<string, { notBeforeMs: number; isActive: boolean; forgetAfterMs: number }>();
  #sinceSweep = 0;
  #complete = false;

  constructor(deps: { clock: Clock; verifier: TokenVerifier; onEnded: (ended: Ended) => void }) {
    this.#clock = deps.clock;
    this.#verifier = deps.verifier;
    this.#onEnded = deps.onEnded;
  }

  /** Whether a snapshot has come; without one there is nothing to decide by. */
  get isComplete(): boolean {
    return this.#complete;
  }

  isSuspended(tenantId: string): boolean {
    return this.#suspendedTenants.has(tenantId);
  }

  /** Whether a token still counts, as far as the feed tells. */
  accepts(claims: AccessClaims): boolean {
    if (this.#endedSessions.has(claims.sessionId)) return false;
    const user = this.#changedUsers.get(claims.userId);
    return user === undefined || (user.isActive && claims.issuedAtMs >= user.notBeforeMs);
  }

  apply({ event }: WatchAuthResponse): void {
    switch (event.case) {
      case 'snapshot':
        this.#replace(event.value);
        break;
      case 'signingKeysChanged':
        this.#setKeys(event.value.signingKeys);
        break;
      case 'tenantChanged':
        this.#setSuspended(event.value.tenantId, event.value.suspended);
        break;
      case 'sessionEnded':
        this.#endSession(event.value);
        break;
      case 'userChanged':
        this.#changeUser(event.value);
        break;
      case 'heartbeat':
      case undefined:
        break;
      default:
        event satisfies never;
    }
    this.#sinceSweep += 1;
    if (this.#sinceSweep >= sweepEvery) this.#sweep();
  }

  #replace(snapshot: AuthSnapshot): void {
    const before = this.#suspendedTenants;
    this.#setKeys(snapshot.signingKeys);
    this.#suspendedTenants = new Set(snapshot.suspendedTenantIds);
    // What was known stays: a snapshot leaves out only what no living token concerns.
    for (const ended of snapshot.endedSessions) this.#endSession(ended);
    for (const changed of snapshot.changedUsers) this.#changeUser(changed);
    for (const tenantId of this.#suspendedTenants) if (!before.has(tenantId)) this.#onEnded({ tenantId });
    this.#complete = true;
  }

  #setKeys(keys: readonly SigningKey[]): void {
    if (this.#verifier.setKeys(keys)) this.#onEnded({ everybody: true });
  }

  #setSuspended(tenantId: string, suspended: boolean): void {
    if (!suspended) {
      this.#suspendedTenants.delete(tenantId);
    } else if (!this.#suspendedTenants.has(tenantId)) {
      this.#suspendedTenants.add(tenantId);
      this.#onEnded({ tenantId });
    }
  }

  #endSession(ended: SessionEnded): void {
    if (this.#endedSessions.has(ended.sessionId)) return;
    this.#endedSessions.set(ended.sessionId, timestampMs(ended.forgetAfter!));
    this.#onEnded({ sessionId: ended.sessionId });
  }

  #changeUser(changed: UserChanged): void {
    const notBeforeMs = timestampMs(changed.tokensNotBefore!);
    // Each change moves it. A snapshot repeats changes, and sessions that were opened since go on.
    if (this.#changedUsers.get(changed.userId)?.notBeforeMs === notBeforeMs) return;
    this.#changedUsers.set(changed.userId, {
      notBeforeMs,
      isActive: changed.isActive,
      forgetAfterMs: timestampMs(changed.forgetAfter!),
    });
    this.#onEnded({ userId: changed.userId });
  }

  #sweep(): void {
    this.#sinceSweep = 0;
    const now = this.#clock.now();
    for (const [id, forgetAfterMs] of this.#endedSessions) if (forgetAfterMs < now) this.#endedSessions.delete(id);
    for (const [id, user] of this.#changedUsers) if (user.forgetAfterMs < now) this.#changedUsers.delete(id);
  }
}
