import type { FastifyRequest } from 'fastify';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { RouteDeps } from '../app.ts';
import { askingPage } from '../http/own-page.ts';
import type { Principal } from '../principal.ts';
import { askWhose, digestNamed } from '../snapshots/keys/key-loads.ts';
import { keyPrincipal } from '../snapshots/keys/key-principal.ts';
import { type ClientSecrets, looksLikeClientSecret, type SecretContent } from './client-secret.ts';
import { realtimeToken } from './credential.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** What the client secret of this request says; null without one. */
    clientSecret: SecretContent | null;
  }
}

/** Finds who opens a session: by a key, an access token or a client secret of theirs. */
export function realtimeAuthentication(
  { credentials, keys, clock, publicUrl }: Pick<RouteDeps, 'credentials' | 'keys' | 'clock' | 'publicUrl'>,
  secrets: ClientSecrets,
): (request: FastifyRequest) => Principal | Promise<Principal> {
  return (request) => {
    const token = realtimeToken(request.raw);
    if (!looksLikeClientSecret(token)) {
      refuseForeignPage(request, publicUrl);
      return credentials.authenticate(token);
    }
    const content = secrets.open(token);
    if (content === null) throw invalidSecret();
    if (content.expiresAtMs <= clock.now()) {
      throw gatewayError(ErrorReason.EXPIRED_TOKEN, 'This client secret has expired. Create a new one.');
    }
    request.clientSecret = content;
    return content.holder.kind === 'session'
      ? credentials.authenticate(content.holder.accessToken)
      : keyHolder(content.holder.digests);
  };

  async function keyHolder(digests: readonly string[]): Promise<Principal> {
    const { principal } = await askWhose(keys, digests.map(digestNamed));
    if (principal === undefined) throw invalidSecret();
    const holder = keyPrincipal(principal, digests);
    if (holder.expiresAtMs <= clock.now()) throw invalidSecret();
    return holder;
  }
}

const invalidSecret = () => gatewayError(ErrorReason.INVALID_API_KEY, 'Incorrect client secret provided.');

/** Foreign pages have no business with a long-lived key: client secrets are made for them. */
function refuseForeignPage(request: FastifyRequest, publicUrl: string): void {
  if (askingPage(request, publicUrl) !== 'foreign') return;
  throw gatewayError(
    ErrorReason.ENDPOINT_NOT_ALLOWED,
    'Pages of other origins must open sessions with a client secret (POST /v1/realtime/client_secrets), not with an API key.',
    { code: 'origin_not_allowed' },
  );
}
