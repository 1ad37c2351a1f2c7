import { Type } from 'typebox';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import type { Routes } from '../../../app.ts';
import { asAnonymous } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { nullable } from '../../../http/nullable.ts';
import { refuseForeignPage } from '../../../http/own-page.ts';
import { readRefreshCookie } from '../../../http/refresh-cookie.ts';
import { loginResultSchema, sendTokens } from './login-result.ts';

/** A refresh token in the body; none when the cookie carries it. */
export const refreshTokenBody = nullable(
  onlyFields({ refresh_token: Type.Optional(Type.String({ minLength: 1, maxLength: 4096 })) }),
);

/** Refresh (decisions.md, Auth): the token comes in the body, or in the portal's cookie. */
export const refreshRoutes: Routes = (app, { auth, publicUrl }) => {
  app.post(
    '/api/v1/auth/refresh',
    {
      config: { access: { surface: 'public' } },
      schema: {
        summary: 'Refresh a login',
        description:
          'Each refresh token works once: a repeat within 10 s gets the same response, any later one ends the session.',
        response: { 200: loginResultSchema },
        body: refreshTokenBody,
      },
    },
    async (request, reply) => {
      const fromBody = request.body?.refresh_token;
      const refreshToken = fromBody ?? readRefreshCookie(request);
      if (refreshToken === undefined) {
        throw gatewayError(ErrorReason.INVALID_TOKEN, 'You did not send a refresh token.');
      }
      const asCookie = fromBody === undefined;
      if (asCookie) refuseForeignPage(request, publicUrl);
      // A refusal leaves the cookie: by the time it arrives, the browser may have that of a session begun since, and would lose it.
      const { tokens } = await auth.refresh({ refreshToken }, asAnonymous(request));
      return sendTokens(reply, tokens!, asCookie);
    },
  );
};
