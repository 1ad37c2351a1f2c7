import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import { asCaller } from '../../../caller.ts';
import { paginationJson } from '../../../http/json.ts';
import { idempotencyKey, pageQuerySchema, type Routes } from '../../routes.ts';
import { invitationJson } from '../invitations.ts';
import { organizationNameSchema } from '../organization.ts';
import { organizationStatuses } from '../user-json.ts';
import { adminOrganizationJson } from './organizations/organization-json.ts';

/** GET and POST /api/v1/admin/organizations, for operators (decisions.md, Auth). */
export const adminOrganizationsRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/organizations',
    {
      config: operatorOnly,
      schema: {
        querystring: Type.Object({
          ...pageQuerySchema,
          status: Type.Optional(organizationStatuses.schema),
          search: Type.Optional(Type.String({ maxLength: 255 })),
        }),
      },
    },
    async (request) => {
      const { page, limit, status, search } = request.query;
      const answer = await auth.adminListOrganizations(
        {
          page: { page, limit },
          status: organizationStatuses.value(status),
          search: search ?? '',
        },
        asCaller(request),
      );
      return { data: answer.organizations.map(adminOrganizationJson), pagination: paginationJson(answer.page) };
    },
  );

  app.post(
    '/api/v1/admin/organizations',
    {
      config: operatorOnly,
      schema: {
        body: Type.Object(
          {
            name: Type.Optional(organizationNameSchema),
            owner_email: Type.String({ minLength: 3, maxLength: 254 }),
          },
          { additionalProperties: false },
        ),
      },
    },
    async (request, reply) => {
      const { name, owner_email: ownerEmail } = request.body;
      const { organization, invitation } = await auth.adminCreateOrganization(
        { name: name ?? '', ownerEmail: ownerEmail.trim(), idempotencyKey: idempotencyKey(request) },
        asCaller(request),
      );
      return reply.code(201).send({
        organization: organization === undefined ? null : adminOrganizationJson(organization),
        invitation: invitationJson(invitation!),
      });
    },
  );
};
