import type { FastifyRequest } from 'fastify';
import { ErrorReason, GatewayError, gatewayError } from '#shared/errors.ts';
import { type Caller, callerContext } from '#shared/rpc/caller.ts';
import type { Routes } from '../../../app.ts';
import { anonymousCaller, callerOfRequest } from '../../../caller.ts';
import type { Credentials } from '../../../guards/access.ts';
import { bearerToken } from '../../../guards/bearer.ts';
import { noBody } from '../../../http/json.ts';
import { refuseForeignPage } from '../../../http/own-page.ts';
import { clearRefreshCookie, readRefreshCookie } from '../../../http/refresh-cookie.ts';
import { refreshTokenBody } from './refresh.ts';

/**
 * Logout (decisions.md, Auth) ends the session of the access token, or else of the refresh token in the body or cookie. Expired tokens are
 * no reason to refuse.
 */
export const logoutRoutes: Routes = (app, { auth, credentials, publicUrl }) => {
  app.post(
    '/api/v1/auth/logout',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Log out',
        description: 'Ends the session of the access token or, without one, of the refresh token.',
        response: { 204: noBody('The session has ended.') },
        body: refreshTokenBody,
      },
    },
    async (request, reply) => {
      const cookie = readRefreshCookie(request);
      if (cookie !== undefined) refuseForeignPage(request, publicUrl);
      const caller = (await sessionOf(request, credentials)) ?? anonymousCaller(request);
      const refreshToken = request.body?.refresh_token ?? cookie ?? '';
      await auth.logout({ refreshToken }, { contextValues: callerContext(caller) });
      if (cookie !== undefined) clearRefreshCookie(reply);
      return reply.code(204).send();
    },
  );
};

/** The caller of the access token, if there is one and it is still valid. */
async function sessionOf(request: FastifyRequest, credentials: Credentials): Promise<Caller | null> {
  if (request.headers.authorization === undefined) return null;
  try {
    const principal = await credentials.authenticate(bearerToken(request.raw));
    if (principal.kind !== 'session') {
      throw gatewayError(ErrorReason.ENDPOINT_NOT_ALLOWED, 'An API key has no session to end.');
    }
    request.principal = principal;
    return callerOfRequest(request);
  } catch (error) {
    if (error instanceof GatewayError && overReasons.has(error.reason)) return null;
    throw error;
  }
}

const overReasons: ReadonlySet<ErrorReason> = new Set([ErrorReason.INVALID_TOKEN, ErrorReason.EXPIRED_TOKEN]);
