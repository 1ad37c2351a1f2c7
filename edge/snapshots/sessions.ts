import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { Client } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { SigningKey } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { CallerConstraintsSchema } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { ErrorReason, type GatewayError, gatewayError, tenantSuspended } from '#shared/errors.ts';
import type { Logger } from '#shared/logger.ts';
import { asService } from '#shared/rpc/caller.ts';
import type { SessionPrincipal } from '../principal.ts';
import { followFeed } from './feed-follower.ts';
import { SessionState } from './sessions/session-state.ts';
import { type AccessClaims, expiredToken, invalidToken, TokenVerifier } from './sessions/token-verifier.ts';
import { SingleFlight } from './single-flight.ts';

/** The session half of the edge's credentials. */
export type SessionCredentials = {
  /** The principal of an access token: at once when the token was verified before and the feed is live, else a promise. */
  authenticate(token: string): SessionPrincipal | Promise<SessionPrincipal>;
  /**
   * Calls back, once and with the refusal, when the principal is no longer served, even if that happened before this call: its session is
   * over, its user has changed, its organization is suspended, or the key that signed its token is compromised. A connection that it holds
   * open is then closed. The token's expiry does not count: another replaces it while the session goes on. Returns a function that stops
   * listening.
   */
  onEnded(principal: SessionPrincipal, listener: (refusal: GatewayError) => void): () => void;
  /** The public keys whose tokens are accepted now or soon; while Auth is away, those it told of last. @throws OVERLOADED before that. */
  signingKeys(): Promise<readonly SigningKey[]>;
  /** Whether the feed is live, so that requests are decided without asking. */
  readonly isLive: boolean;
  close(): Promise<void>;
};

type Listener = { principal: SessionPrincipal; call: (refusal: GatewayError) => void };

type Verified = { claims: AccessClaims; principal: SessionPrincipal };

/** How many verified tokens are remembered; each takes about a kilobyte. */
const rememberedMax = 10_000;

/** How long an edge waits for an answer, in milliseconds. */
const askTimeoutMs = 1_000;

export function createSessionCredentials(deps: {
  auth: Pick<Client<typeof AuthService>, 'watchAuth' | 'acknowledgeAuth' | 'getSessionState' | 'getSigningKeys'>;
  /** The id of this process (UUID), made anew at each start. */
  edgeId: string;
  clock: Clock;
  logger: Logger;
  publicUrl: string;
}): SessionCredentials {
  const { auth, edgeId, clock, logger, publicUrl: issuer } = deps;
  const listeners = new Set<Listener>();
  const verifier = new TokenVerifier({ clock, issuer });
  const state = new SessionState({
    clock,
    verifier,
    onChange: () => {
      for (const listener of [...listeners]) tellIfEnded(listener);
    },
  });
  const tellIfEnded = (listener: Listener): void => {
    const { principal, call } = listener;
    const isAccepted = state.accepts(principal);
    if (isAccepted && !state.isSuspended(principal.tenantId)) return;
    if (listeners.delete(listener)) call(isAccepted ? tenantSuspended() : invalidToken());
  };
  const asEdge = asService('edge');
  const feed = followFeed(
    {
      name: 'the feed of sessions',
      watch: (signal) => auth.watchAuth({ edgeId, issuer }, { ...asEdge, signal }),
      acknowledge: (version) => auth.acknowledgeAuth({ edgeId, version }, { ...asEdge, timeoutMs: askTimeoutMs }),
      leave: () => auth.acknowledgeAuth({ edgeId, leaving: true }, { ...asEdge, timeoutMs: askTimeoutMs }),
      apply: (event) => state.apply(event),
    },
    { clock, logger },
  );
  /** Tokens whose signature was verified; the oldest give way. */
  const remembered = new Map<string, Verified>();

  const refuseExpired = (token: string, { expiresAtMs }: AccessClaims): void => {
    if (clock.now() < expiresAtMs) return;
    remembered.delete(token);
    throw expiredToken();
  };

  const refused = (token: string): GatewayError => {
    remembered.delete(token);
    return invalidToken();
  };

  /** Decides by the feed. */
  const decide = (token: string, { claims, principal }: Verified): SessionPrincipal => {
    refuseExpired(token, claims);
    if (!state.accepts(claims)) throw refused(token);
    principal.tenantSuspended = state.isSuspended(claims.tenantId);
    return principal;
  };

  const verifying = new SingleFlight<Verified>();
  const verify = async (token: string): Promise<SessionPrincipal> => {
    // Without its key a good token cannot be told from a bad one, and a silent feed does not tell of new ones.
    if (!state.isComplete || (!feed.isLive && verifier.namesUnknownKey(token))) throw nobodyCanTell();
    const verified = await verifying.run(token, async () => {
      const claims = await verifier.verify(token);
      const fresh = { claims, principal: principalOf(claims) };
      if (remembered.size >= rememberedMax) remembered.delete(remembered.keys().next().value!);
      remembered.set(token, fresh);
      return fresh;
    });
    return feed.isLive ? decide(token, verified) : ask(token, verified);
  };

  /**
   * Asks Auth about one session while the feed is silent: a lapsed lease must neither let an ended session in nor shut a valid one out, as
   * that of a user who was deactivated when the feed last spoke. Each request asks for itself, since another's answer may be older than a
   * logout that was answered before this request came.
   */
  const ask = async (token: string, { claims, principal }: Verified): Promise<SessionPrincipal> => {
    refuseExpired(token, claims);
    const { sessionId, userId, issuedAtMs, kid } = claims;
    if (state.hasEnded(sessionId)) throw refused(token);
    const answer = await auth
      .getSessionState(
        { sessionId, userId, issuedAt: timestampFromMs(issuedAtMs), kid },
        { ...asEdge, timeoutMs: askTimeoutMs },
      )
      .catch((cause) => {
        throw nobodyCanTell(cause);
      });
    if (!answer.accepted) throw refused(token);
    return { ...principal, tenantSuspended: answer.tenantSuspended };
  };

  return {
    authenticate(token) {
      const verified = remembered.get(token);
      if (verified === undefined) return verify(token);
      return feed.isLive ? decide(token, verified) : ask(token, verified);
    },
    onEnded(principal, call) {
      const listener = { principal, call };
      listeners.add(listener);
      // Its end may have been reported between its authentication and now.
      tellIfEnded(listener);
      return () => listeners.delete(listener);
    },
    async signingKeys() {
      if (feed.isLive) return verifier.acceptedKeys();
      try {
        // No rotation waits for an edge whose feed is silent.
        return (await auth.getSigningKeys({}, { ...asEdge, timeoutMs: askTimeoutMs })).signingKeys;
      } catch (cause) {
        if (!state.isComplete) throw nobodyCanTell(cause);
        return verifier.acceptedKeys();
      }
    },
    get isLive() {
      return feed.isLive;
    },
    close: () => feed.close(),
  };
}

const principalOf = (claims: AccessClaims): SessionPrincipal => ({
  kind: 'session',
  tenantId: claims.tenantId,
  userId: claims.userId,
  sessionId: claims.sessionId,
  issuedAtMs: claims.issuedAtMs,
  kid: claims.kid,
  role: claims.role,
  operator: claims.operator,
  tenantSuspended: false,
  expiresAtMs: claims.expiresAtMs,
  // A session is limited by nothing but its user's limits.
  constraints: create(CallerConstraintsSchema, {}),
});

const nobodyCanTell = (cause?: unknown) =>
  gatewayError(ErrorReason.OVERLOADED, 'Session tokens cannot be checked at the moment. Try again shortly.', {
    retryAfterMs: 1_000,
    internal: 'the feed of Auth is silent and Auth does not answer',
    cause,
  });
