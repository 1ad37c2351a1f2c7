import { Type } from 'typebox';
import { operatorOnly } from '../../../../access.ts';
import type { Routes } from '../../../../app.ts';
import { asCaller } from '../../../../caller.ts';
import { onlyFields } from '../../../../http/bodies.ts';
import { idSchema } from '../../../../http/json.ts';
import { nullable } from '../../../../http/nullable.ts';
import { organizationId } from '../organization-id.ts';
import { adminOrganizationJson, adminOrganizationSchema } from './organization-json.ts';

const params = Type.Object({ tenant_id: idSchema });

/** POST /api/v1/admin/organizations/{tenant_id}/suspend and …/restore. */
export const suspensionRoutes: Routes = (app, { auth }) => {
  app.post(
    '/api/v1/admin/organizations/:tenant_id/suspend',
    {
      config: operatorOnly,
      schema: {
        summary: 'Suspend an organization',
        description: 'Its inference, jobs and realtime sessions are refused; reads and billing go on.',
        response: { 200: adminOrganizationSchema },
        params,
        body: nullable(onlyFields({ reason: Type.Optional(Type.String({ maxLength: 1000 })) })),
      },
    },
    async (request) => {
      const { organization } = await auth.suspendOrganization(
        { tenantId: organizationId(request.params.tenant_id), reason: request.body?.reason },
        asCaller(request),
      );
      return adminOrganizationJson(organization!);
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/restore',
    {
      config: operatorOnly,
      schema: { summary: 'Restore an organization', response: { 200: adminOrganizationSchema }, params },
    },
    async (request) => {
      const { organization } = await auth.restoreOrganization(
        { tenantId: organizationId(request.params.tenant_id) },
        asCaller(request),
      );
      return adminOrganizationJson(organization!);
    },
  );
};
