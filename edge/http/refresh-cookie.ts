import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';
import type {} from '@fastify/cookie';
import type { FastifyReply, FastifyRequest } from 'fastify';

/*
 * The cookie with the portal's refresh token: unreadable for scripts, sent only to the authentication endpoints, and never from another
 * site. Browsers accept a Secure cookie from http://127.0.0.1 and http://localhost too.
 */

const name = 'mg_refresh_token';
const attributes = { httpOnly: true, secure: true, sameSite: 'strict', path: '/api/v1/auth' } as const;

/** The refresh token of the request's cookie; undefined when there is none. */
export const readRefreshCookie = (request: FastifyRequest): string | undefined => request.cookies[name] || undefined;

export function setRefreshCookie(reply: FastifyReply, refreshToken: string, expiresAt: Timestamp): void {
  reply.setCookie(name, refreshToken, { ...attributes, expires: timestampDate(expiresAt) });
}

export function clearRefreshCookie(reply: FastifyReply): void {
  reply.clearCookie(name, attributes);
}
