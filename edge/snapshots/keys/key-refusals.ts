import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';

/** Nobody has such a secret. */
export const invalidKey = (): GatewayError =>
  gatewayError(ErrorReason.INVALID_API_KEY, 'Incorrect API key provided. Check the key, or create a new one.');

/** The key, or the grace period of its secret, is over by its date. */
export const expiredKey = (): GatewayError =>
  gatewayError(ErrorReason.EXPIRED_API_KEY, 'This API key has expired. Create a new one.');

/** The secret of an open connection ended while it was open. */
export const endedKey = (): GatewayError =>
  gatewayError(
    ErrorReason.INVALID_API_KEY,
    'The API key of this session has ended: it was deleted, revoked or replaced.',
  );
