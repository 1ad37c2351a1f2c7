import { Type } from 'typebox';
import type { Routes } from '../../app.ts';
import { asCaller } from '../../caller.ts';
import { onlyFields } from '../../http/bodies.ts';
import { nullable } from '../../http/nullable.ts';
import { profileJson, profileSchema } from './user-json.ts';

/** The caller's own profile: by session, or by a management key with `profile:read` (service.md). Only a session may change it. */
export const profileRoutes: Routes = (app, { auth }) => {
  for (const path of ['/api/v1/profile', '/api/v1/auth/profile']) {
    app.get(
      path,
      {
        config: { access: { surface: 'api', scope: 'profile:read' } },
        schema: {
          ...(path === '/api/v1/profile' && { summary: 'Get the profile' }),
          response: { 200: profileSchema },
        },
      },
      async (request) => {
        const answer = await auth.getProfile({}, asCaller(request));
        return profileJson(answer.user!, answer.organization!);
      },
    );
  }

  app.patch(
    '/api/v1/profile',
    {
      config: { access: { surface: 'session' } },
      schema: {
        summary: 'Change the profile',
        response: { 200: profileSchema },
        body: onlyFields({
          first_name: Type.Optional(Type.String({ maxLength: 100 })),
          last_name: Type.Optional(Type.String({ maxLength: 100 })),
          phone: nullable(Type.String({ maxLength: 50 })),
          onboarding_completed: Type.Optional(Type.Boolean()),
        }),
      },
    },
    async (request) => {
      const body = request.body;
      const answer = await auth.updateProfile(
        {
          firstName: body.first_name,
          lastName: body.last_name,
          phone: body.phone === null ? '' : body.phone,
          onboardingCompleted: body.onboarding_completed,
        },
        asCaller(request),
      );
      return profileJson(answer.user!, answer.organization!);
    },
  );
};
