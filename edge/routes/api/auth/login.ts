import { Type } from 'typebox';
import type { Routes } from '../../../app.ts';
import { asAnonymous } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { askingPage } from '../../../http/own-page.ts';
import { loginResultSchema, sendTokens } from './login-result.ts';
import { passwordSchema } from './password-schemas.ts';

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
