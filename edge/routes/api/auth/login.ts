import type { FastifyReply } from 'fastify';
import { type Static, Type } from 'typebox';
import type { SessionTokens } from '#gen/modelgateway/auth/v1/session_pb.ts';
import type { Routes } from '../../../app.ts';
import { asAnonymous } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { noStore } from '../../../http/no-store.ts';
import { askingPage } from '../../../http/own-page.ts';
import { setRefreshCookie } from '../../../http/refresh-cookie.ts';
import { userJson, userSchema } from '../user-json.ts';

/** The length that a password field accepts; Auth hashes nothing longer. */
export const passwordSchema = Type.String({ minLength: 1, maxLength: 1024 });

/** A new password. */
export const newPasswordSchema = Type.String({
  ...passwordSchema,
  description:
    'At least 8 characters, including an upper-case letter, a lower-case letter, a digit and a special character.',
});

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

/** Login (service.md, Authentication endpoints). */
export const loginRoutes: Routes = (app, { auth, publicUrl }) => {
  app.post(
    '/api/v1/auth/login',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Log in',
        response: { 200: loginResultSchema },
        body: onlyFields({
          email: Type.String({ format: 'email', minLength: 1, maxLength: 254 }),
          password: passwordSchema,
        }),
      },
    },
    async (request, reply) => {
      const { email, password } = request.body;
      const userAgent = (request.headers['user-agent'] ?? '').slice(0, 1024);
      const { tokens } = await auth.login({ email, password, userAgent }, asAnonymous(request));
      return sendTokens(reply, tokens!, askingPage(request, publicUrl) === 'own');
    },
  );
};

/**
 * The login result. One of the gateway's own pages gets the refresh token as a cookie that scripts cannot read, and not in the body
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
