import type { FastifyReply } from 'fastify';
import { type Static, Type } from 'typebox';
import type { SessionTokens } from '#gen/modelgateway/auth/v1/session_pb.ts';
import { noStore } from '../../../http/no-store.ts';
import { setRefreshCookie } from '../../../http/refresh-cookie.ts';
import { userJson, userSchema } from '../user-json.ts';

/** What a login, and each refresh, is answered with (service.md, Login result). */
export const loginResultSchema = Type.Object(
  {
    access_token: Type.String({ description: 'A JWT, valid for 30 minutes.' }),
    refresh_token: Type.Optional(
      Type.String({
        description:
          "A JWT, valid for 7 days and one refresh. Absent for the gateway's own pages, which get it as a cookie.",
      }),
    ),
    token_type: Type.Literal('bearer'),
    expires_in: Type.Integer({ description: 'Seconds until the access token expires.' }),
    user: userSchema,
  },
  { $id: 'LoginResult' },
);

/**
 * Answers with the login result. One of the gateway's own pages gets the refresh token as a cookie that scripts cannot read, and not in the body
 * (decisions.md, Auth); everybody else gets it in the body and no cookie.
 */
export function sendTokens(reply: FastifyReply, tokens: SessionTokens, asCookie: boolean): FastifyReply {
  if (asCookie) setRefreshCookie(reply, tokens.refreshToken, tokens.refreshTokenExpiresAt!);
  const result: Static<typeof loginResultSchema> = {
    access_token: tokens.accessToken,
    ...(!asCookie && { refresh_token: tokens.refreshToken }),
    token_type: 'bearer',
    expires_in: tokens.expiresInSeconds,
    user: userJson(tokens.user!),
  };
  return noStore(reply).send(result);
}
