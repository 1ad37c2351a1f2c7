import { Type } from 'typebox';
import type { Routes } from '../../app.ts';
import { asCaller } from '../../caller.ts';
import { onlyFields } from '../../http/bodies.ts';
import { organizationJson, organizationSchema } from './user-json.ts';

export const organizationNameSchema = Type.String({ minLength: 2, maxLength: 255 });

/** The caller's own organization (decisions.md, Auth): sessions only; admins and owners rename it. */
export const organizationRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/organization',
    {
      config: { access: { surface: 'session' } },
      schema: { summary: 'Get your organization', response: { 200: organizationSchema } },
    },
    async (request) => {
      const { organization } = await auth.getOrganization({}, asCaller(request));
      return organizationJson(organization!);
    },
  );

  app.patch(
    '/api/v1/organization',
    {
      config: { access: { surface: 'session', role: 'admin' } },
      schema: {
        summary: 'Rename your organization',
        body: onlyFields({ name: Type.Optional(organizationNameSchema) }),
        response: { 200: organizationSchema },
      },
    },
    async (request) => {
      const { organization } = await auth.updateOrganization({ name: request.body.name }, asCaller(request));
      return organizationJson(organization!);
    },
  );
};
