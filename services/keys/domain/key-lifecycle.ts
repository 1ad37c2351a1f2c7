import { KeyStatus } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { ErrorReason, gatewayError, invalidValue } from '#shared/errors.ts';

/** The times that decide a key's state ("States and transitions" in service.md). */
type KeyLifecycle = { expiresAt: Date | null; revokedAt: Date | null };

/** A key's status at a moment. A key stops at the very millisecond of its expiry. */
export function statusAt({ expiresAt, revokedAt }: KeyLifecycle, nowMs: number): KeyStatus {
  if (revokedAt !== null) return KeyStatus.REVOKED;
  return expiresAt !== null && expiresAt.getTime() <= nowMs ? KeyStatus.EXPIRED : KeyStatus.ACTIVE;
}

/** Refuses an expiry that is not in the future (service.md, Limits). */
export function requireFutureExpiry(expiresAtMs: number | null, nowMs: number): void {
  if (expiresAtMs === null || expiresAtMs > nowMs) return;
  throw invalidValue('expires_at', 'it must be in the future');
}

/** Refuses to change a key that an operator revoked: revocation is final. */
export function requireNotRevoked({ revokedAt }: KeyLifecycle): void {
  if (revokedAt === null) return;
  throw gatewayError(
    ErrorReason.CONFLICT,
    'This key was revoked by the platform operator; it can only be deleted. Create a new key instead.',
  );
}
