import { timestampMs } from '@bufbuild/protobuf/wkt';
import type { AuthSnapshot, SessionEnded, UserChanged, WatchAuthResponse } from '#gen/modelgateway/auth/v1/feed_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { AccessClaims, TokenVerifier } from './token-verifier.ts';

/** After how many events outdated entries are forgotten. */
const sweepEvery = 1_000;

/** What Auth's feed has reported: suspended organizations, ended sessions, changed users. */
export class SessionState {
  readonly #clock: Clock;
  readonly #verifier: TokenVerifier;
  readonly #onChange: () => void;
  #suspendedTenants = new Set<string>();
  /** For each session, until when to remember it. */
  #endedSessions = new Map<string, number>();
  #changedUsers = new Map<string, { notBeforeMs: number; isActive: boolean; forgetAfterMs: number }>();
  #sinceSweep = 0;
  #complete = false;

  /** `onChange` is called after each event that may end somebody's access. */
  constructor(deps: { clock: Clock; verifier: TokenVerifier; onChange: () => void }) {
    this.#clock = deps.clock;
    this.#verifier = deps.verifier;
    this.#onChange = deps.onChange;
  }

  /** Whether a snapshot has arrived; without one nothing can be decided. */
  get isComplete(): boolean {
    return this.#complete;
  }

  isSuspended(tenantId: string): boolean {
    return this.#suspendedTenants.has(tenantId);
  }

  /** Whether the feed has told of a session's end, which is final: a failover may lose it, but not undo it. */
  hasEnded(sessionId: string): boolean {
    return this.#endedSessions.has(sessionId);
  }

  /** Whether a token is still valid, as far as the feed tells. */
  accepts(claims: Pick<AccessClaims, 'kid' | 'sessionId' | 'userId' | 'issuedAtMs'>): boolean {
    if (!this.#verifier.accepts(claims.kid) || this.hasEnded(claims.sessionId)) return false;
    const user = this.#changedUsers.get(claims.userId);
    return user === undefined || (user.isActive && claims.issuedAtMs >= user.notBeforeMs);
  }

  apply({ event }: WatchAuthResponse): void {
    switch (event.case) {
      case 'snapshot':
        this.#replace(event.value);
        break;
      case 'signingKeysChanged':
        this.#verifier.setKeys(event.value.signingKeys);
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
    if (event.case !== 'heartbeat') this.#onChange();
    this.#sinceSweep += 1;
    if (this.#sinceSweep >= sweepEvery) this.#sweep();
  }

  #replace(snapshot: AuthSnapshot): void {
    this.#verifier.setKeys(snapshot.signingKeys);
    this.#suspendedTenants = new Set(snapshot.suspendedTenantIds);
    // Those that have ended before stay: see `hasEnded`.
    for (const ended of snapshot.endedSessions) this.#endSession(ended);
    // A snapshot omits only what no living token needs, or what a failover lost: then tokens are issued as if it had never been.
    this.#changedUsers.clear();
    for (const changed of snapshot.changedUsers) this.#changeUser(changed);
    this.#complete = true;
  }

  #setSuspended(tenantId: string, suspended: boolean): void {
    if (suspended) this.#suspendedTenants.add(tenantId);
    else this.#suspendedTenants.delete(tenantId);
  }

  #endSession(ended: SessionEnded): void {
    this.#endedSessions.set(ended.sessionId, timestampMs(ended.forgetAfter!));
  }

  #changeUser(changed: UserChanged): void {
    this.#changedUsers.set(changed.userId, {
      notBeforeMs: timestampMs(changed.tokensNotBefore!),
      isActive: changed.isActive,
      forgetAfterMs: timestampMs(changed.forgetAfter!),
    });
  }

  #sweep(): void {
    this.#sinceSweep = 0;
    const now = this.#clock.now();
    for (const [id, forgetAfterMs] of this.#endedSessions) if (forgetAfterMs < now) this.#endedSessions.delete(id);
    for (const [id, user] of this.#changedUsers) if (user.forgetAfterMs < now) this.#changedUsers.delete(id);
  }
}
