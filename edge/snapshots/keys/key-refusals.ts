import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';

/** For a secret that nobody has. */
export const invalidKey = (): GatewayError =>
  gatewayError(ErrorReason.INVALID_API_KEY, 'Incorrect API key provided. Check the key, or create a new one.');

/** For a key, or a secret in its grace period, that has expired. */
export const expiredKey = (): GatewayError =>
  gatewayError(ErrorReason.EXPIRED_API_KEY, 'This API key has expired. Create a new one.');

/** For an open connection whose secret has ended. */
export const endedKey = (): GatewayError =>
  gatewayError(
    ErrorReason.INVALID_API_KEY,
    'The API key of this session is no longer valid: it was deleted, revoked or rotated.',
  );
