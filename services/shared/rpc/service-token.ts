import { createSecretKey, type KeyObject } from 'node:crypto';
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { type JWTPayload, errors as joseErrors, jwtVerify, SignJWT } from 'jose';
import { type Clock, clockDifferenceMsMax } from '../clock.ts';
import { ErrorReason, type GatewayError, gatewayError, hasReason, invalidRequest } from '../errors.ts';
import { messageOf } from '../message-of.ts';
import { type Caller, CallerKind, CallerSchema, Role } from './caller.ts';
import { validateMessage } from './validation.ts';

/**
 * Service tokens (security.md, Service calls): a JWT of at most 60 s that says which service calls which, and on whose behalf. A token for
 * one service is refused by every other.
 */
export type ServiceTokens = {
  /** Signs a token for a call of `audience` (the full name of the proto service). */
  mint(audience: string, caller: Caller): Promise<string>;
  /** The caller in a token that was minted for `audience` by one of `issuers`; otherwise fails with UNAUTHENTICATED_SERVICE. */
  verify(token: string, audience: string, issuers: readonly string[]): Promise<Caller>;
};

const tokenType = 'service+jwt';
const lifetimeSeconds = 60;
/** A cached token is used for half its life, so that it never expires on its way. */
const cachedMs = (lifetimeSeconds / 2) * 1000;
const cacheEntriesMax = 1_000;
/** HMAC-SHA-256 needs a key at least as long as its output (RFC 7518 section 3.2). */
const serviceSecretBytesMin = 32;

/** The first secret signs and all verify: a new one is added after the old one, and moves to the front once every process knows it. */
export function createServiceTokens(deps: {
  /** The name of this process's service, as in other services' lists of callers. */
  issuer: string;
  secrets: readonly string[];
  clock: Clock;
}): ServiceTokens {
  const { issuer, clock } = deps;
  const keys = deps.secrets.map(secretKey);
  const [signingKey] = keys;
  if (signingKey === undefined) throw new Error('A service secret is needed to sign service tokens.');
  const cache = new Map<string, { token: string; freshUntilMs: number }>();

  function sign(audience: string, encodedCaller: string, nowMs: number): Promise<string> {
    const nowSeconds = Math.floor(nowMs / 1000);
    return new SignJWT({ caller: encodedCaller })
      .setProtectedHeader({ alg: 'HS256', typ: tokenType })
      .setIssuer(issuer)
      .setAudience(audience)
      .setIssuedAt(nowSeconds)
      .setExpirationTime(nowSeconds + lifetimeSeconds)
      .sign(signingKey!);
  }

  return {
    async mint(audience, caller) {
      const nowMs = clock.now();
      const encodedCaller = Buffer.from(toBinary(CallerSchema, caller)).toString('base64url');
      // A caller with a request id seldom comes twice; the others are services, which call again and again.
      if (caller.requestId !== '') return sign(audience, encodedCaller, nowMs);
      const cacheKey = `${audience} ${encodedCaller}`;
      const cached = cache.get(cacheKey);
      if (cached !== undefined && nowMs < cached.freshUntilMs && nowMs >= cached.freshUntilMs - cachedMs) {
        return cached.token;
      }
      if (cache.size >= cacheEntriesMax) cache.clear();
      const token = await sign(audience, encodedCaller, nowMs);
      cache.set(cacheKey, { token, freshUntilMs: nowMs + cachedMs });
      return token;
    },

    async verify(token, audience, issuers) {
      const payload = await verifiedPayload(token, keys, {
        algorithms: ['HS256'],
        typ: tokenType,
        audience,
        issuer: [...issuers],
        requiredClaims: ['iss', 'aud', 'iat', 'exp', 'caller'],
        maxTokenAge: lifetimeSeconds,
        clockTolerance: clockDifferenceMsMax / 1000,
        currentDate: new Date(clock.now()),
      });
      return callerIn(payload);
    },
  };
}

type VerifyOptions = Parameters<typeof jwtVerify>[2] & { currentDate: Date };

async function verifiedPayload(token: string, keys: readonly KeyObject[], options: VerifyOptions): Promise<JWTPayload> {
  let refusal: unknown;
  for (const key of keys) {
    try {
      return (await jwtVerify(token, key, options)).payload;
    } catch (error) {
      refusal = error;
      // Another secret is worth trying only if the signature was wrong.
      if (!(error instanceof joseErrors.JWSSignatureVerificationFailed)) break;
    }
  }
  throw refusedToken(refusal, options.currentDate);
}

function callerIn(payload: JWTPayload): Caller {
  const { caller: encoded, iss, exp, iat } = payload;
  if (typeof encoded !== 'string') throw refusedToken(wrongClaim('caller'));
  if (exp! - iat! > lifetimeSeconds) throw refusedToken(wrongClaim('exp'));
  const caller = decodeCaller(encoded);
  // The issuer of the token, not its content, says which service calls.
  caller.service = caller.kind === CallerKind.SERVICE ? iss! : '';
  // Spelled as by Postgres, so that they can be compared.
  for (const id of ids) caller[id] = caller[id].toLowerCase();
  return caller;
}

const ids = ['tenantId', 'userId', 'apiKeyId', 'sessionId'] as const;

function decodeCaller(encoded: string): Caller {
  try {
    const caller = fromBinary(CallerSchema, Buffer.from(encoded, 'base64url'));
    validateMessage(CallerSchema, caller);
    requireIds(caller);
    return caller;
  } catch (error) {
    throw refusedToken(error);
  }
}

/** Nothing could be metered, charged or recorded for a caller without ids, and nobody without a credential has rights. */
function requireIds({ kind, role, operator, tenantId, userId, apiKeyId }: Caller): void {
  if (kind === CallerKind.UNSPECIFIED && (operator || role !== Role.UNSPECIFIED)) {
    throw invalidRequest('kind', 'The caller lacks its `kind`.');
  }
  const isKey = kind === CallerKind.API_KEY;
  if (!isKey && kind !== CallerKind.SESSION && role === Role.UNSPECIFIED) return;
  const missing =
    tenantId === '' ? 'tenant_id' : userId === '' ? 'user_id' : isKey && apiKeyId === '' ? 'api_key_id' : undefined;
  if (missing !== undefined) throw invalidRequest(missing, `The caller lacks its \`${missing}\`.`);
}

function refusedToken(cause: unknown, now?: Date): GatewayError {
  return gatewayError(ErrorReason.UNAUTHENTICATED_SERVICE, `The service token was refused${whatIsWrong(cause, now)}`, {
    cause,
    internal: messageOf(cause),
  });
}

/** The part of a refusal's text that tells a wrong secret from a wrong clock; the operators' command line looks for it. */
export const signedWithAnotherSecret = 'it was signed with another SERVICE_SECRET';

const wrongClaim = (claim: string) => new joseErrors.JWTClaimValidationFailed(`wrong ${claim}`, {}, claim);

/**
 * What an operator, or who signs tokens in another language, can correct. What is wrong with a caller or a claim may be told, since the
 * token was signed with the secret.
 */
function whatIsWrong(cause: unknown, now?: Date): string {
  if (hasReason(cause, ErrorReason.INVALID_REQUEST)) return `. ${cause.message}`;
  if (cause instanceof joseErrors.JWSSignatureVerificationFailed) return `: ${signedWithAnotherSecret}.`;
  if (!(cause instanceof joseErrors.JWTExpired || cause instanceof joseErrors.JWTClaimValidationFailed)) return '.';
  const { iat } = cause.payload;
  const isOfAnotherTime = cause instanceof joseErrors.JWTExpired || cause.claim === 'iat';
  if (!isOfAnotherTime || typeof iat !== 'number' || now === undefined)
    return `: its \`${cause.claim}\` is missing or wrong.`;
  const ageSeconds = Math.floor(now.getTime() / 1000) - iat;
  const made = ageSeconds < 0 ? `${-ageSeconds} s in the future` : `${ageSeconds} s ago`;
  return `: by the clock of the called service it was made ${made}; check the clocks of the two machines.`;
}

function secretKey(secret: string): KeyObject {
  const bytes = Buffer.from(secret, 'utf8');
  if (bytes.length < serviceSecretBytesMin) {
    throw new Error(`A service secret needs at least ${serviceSecretBytesMin} bytes; it has ${bytes.length}.`);
  }
  return createSecretKey(bytes);
}
