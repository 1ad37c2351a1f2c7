import { createPublicKey, type KeyObject } from 'node:crypto';
import { decodeProtectedHeader, errors, jwtVerify } from 'jose';
import type { SigningKey } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import { isUuid } from '#shared/ids.ts';
import type { Role } from '#shared/rpc/caller.ts';
import { accessToken, roleNamed, tokenAlgorithm } from '#shared/session-token.ts';
import { msOrNever } from '../expiry.ts';

/** What a sound access token says. */
export type AccessClaims = {
  tenantId: string;
  userId: string;
  sessionId: string;
  role: Role;
  operator: boolean;
  issuedAtMs: number;
  expiresAtMs: number;
  kid: string;
};

type KnownKey = { publicKey: KeyObject; expiresAtMs: number; published: SigningKey };

/** The gateway's tokens have some 500 characters. */
const tokenLengthMax = 4096;
const tokenShape = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const headerParameters = new Set(['alg', 'typ', 'kid']);

/** Verifies access tokens by the published keys, as RFC 8725 asks: one algorithm, one type, one issuer, one audience. */
export class TokenVerifier {
  readonly #clock: Clock;
  readonly #issuer: string;
  #keys: ReadonlyMap<string, KnownKey> = new Map();

  constructor(options: { clock: Clock; issuer: string }) {
    this.#clock = options.clock;
    this.#issuer = options.issuer;
  }

  setKeys(keys: readonly SigningKey[]): void {
    this.#keys = new Map(keys.map((key) => [key.kid, knownKey(key)]));
  }

  /** The keys whose tokens are accepted now or soon. */
  acceptedKeys(): SigningKey[] {
    return [...this.#keys.values()].map(({ published }) => published).filter(({ kid }) => this.accepts(kid));
  }

  /** Whether tokens signed by a key are accepted now. */
  accepts(kid: string): boolean {
    const key = this.#keys.get(kid);
    return key !== undefined && this.#clock.now() < key.expiresAtMs;
  }

  /** Whether a token names a key that nobody has told of, which may be a new one. */
  namesUnknownKey(token: string): boolean {
    try {
      const { kid } = decodeProtectedHeader(token);
      return kid !== undefined && !this.#keys.has(kid);
    } catch {
      return false;
    }
  }

  /** @throws GatewayError INVALID_TOKEN or EXPIRED_TOKEN. */
  async verify(token: string): Promise<AccessClaims> {
    if (token.length > tokenLengthMax || !tokenShape.test(token)) throw invalidToken();
    try {
      const { payload, protectedHeader } = await jwtVerify(
        token,
        (header) => {
          // No parameter may bring its own key (jwk, jku, x5u, x5c), and none that we do not know may be critical.
          if (Object.keys(header).some((name) => !headerParameters.has(name))) throw new errors.JWSInvalid();
          return this.#publicKey(header.kid);
        },
        {
          algorithms: [tokenAlgorithm],
          typ: accessToken.type,
          issuer: this.#issuer,
          audience: accessToken.audience,
          requiredClaims: ['exp', 'iat', 'sub', 'sid', 'tenant_id', 'role', 'jti'],
          currentDate: new Date(this.#clock.now()),
        },
      );
      return claimsOf(payload, protectedHeader.kid!);
    } catch (error) {
      if (error instanceof errors.JWTExpired) throw expiredToken();
      throw invalidToken(error);
    }
  }

  #publicKey(kid: unknown): KeyObject {
    if (typeof kid !== 'string' || !this.accepts(kid)) throw new errors.JWKSNoMatchingKey();
    return this.#keys.get(kid)!.publicKey;
  }
}

export const invalidToken = (cause?: unknown): GatewayError =>
  gatewayError(ErrorReason.INVALID_TOKEN, 'The session token is not valid. Sign in again.', {
    internal: cause instanceof Error ? cause.message : undefined,
  });

export const expiredToken = (): GatewayError =>
  gatewayError(ErrorReason.EXPIRED_TOKEN, 'The session token has expired. Refresh it.');

function claimsOf(payload: Readonly<Record<string, unknown>>, kid: string): AccessClaims {
  const { sub, sid, tenant_id: tenantId, iat, exp, operator } = payload;
  const role = roleNamed(payload.role);
  const ids = [sub, sid, tenantId];
  if (!ids.every((id) => typeof id === 'string' && isUuid(id)) || role === undefined) throw invalidToken();
  return {
    tenantId: tenantId as string,
    userId: sub as string,
    sessionId: sid as string,
    role,
    operator: operator === true,
    issuedAtMs: (iat as number) * 1000,
    expiresAtMs: (exp as number) * 1000,
    kid,
  };
}

const knownKey = (key: SigningKey): KnownKey => ({
  publicKey: createPublicKey({
    key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(key.publicKey).toString('base64url') },
    format: 'jwk',
  }),
  expiresAtMs: msOrNever(key.expiresAt),
  published: key,
});
