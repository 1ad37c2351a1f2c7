import { Type } from 'typebox';
import { OrganizationStatus } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { paginationJson } from '../../../http/json.ts';
import { idempotencyKey, pageQuerySchema, type Routes } from '../../routes.ts';
import { invitationJson } from '../invitations.ts';
import { organizationNameSchema } from '../organization.ts';
import { adminOrganizationJson } from './organizations/organization-json.ts';

const access = { surface: 'operator' } as const;
const statuses = { active: OrganizationStatus.ACTIVE, suspended: OrganizationStatus.SUSPENDED } as const;

/** GET and POST /api/v1/admin/organizations, for operators (decisions.md, Auth). */
export const adminOrganizationsRoutes: Routes = (app, { auth }) => {
  app.get(
    '/api/v1/admin/organizations',
    {
      config: { access },
      schema: {
        querystring: Type.Object({
          ...pageQuerySchema,
          status: Type.Optional(Type.Union([Type.Literal('active'), Type.Literal('suspended')])),
          search: Type.Optional(Type.String({ maxLength: 255 })),
        }),
      },
    },
    async (request) => {
      const { page, limit, status, search } = request.query;
      const answer = await auth.adminListOrganizations(
        {
          page: { page, limit },
          status: status === undefined ? OrganizationStatus.UNSPECIFIED : statuses[status],
          search: search ?? '',
        },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return { data: answer.organizations.map(adminOrganizationJson), pagination: paginationJson(answer.page) };
    },
  );

  app.post(
    '/api/v1/admin/organizations',
    {
      config: { access },
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
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return reply.code(201).send({
        organization: organization === undefined ? null : adminOrganizationJson(organization),
        invitation: invitationJson(invitation!),
      });
    },
  );
};
