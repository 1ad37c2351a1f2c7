import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idempotencyKey } from '../../../http/idempotency-key.ts';
import { pageOf, pageQuerySchema, paginationJson } from '../../../http/json.ts';
import { orNull } from '../../../http/nullable.ts';
import { invitationJson, invitationSchema } from '../invitations.ts';
import { organizationNameSchema } from '../organization.ts';
import { organizationStatuses } from '../user-json.ts';
import {
  accountStandings,
  listedOrganizationJson,
  listedOrganizationSchema,
  listOrganizations,
} from './organizations/listed-organizations.ts';
import { adminOrganizationJson, adminOrganizationSchema } from './organizations/organization-json.ts';

const createdSchema = Type.Object({
  organization: orNull(adminOrganizationSchema),
  invitation: invitationSchema,
});

/** GET and POST /api/v1/admin/organizations, for operators (decisions.md, Auth). */
export const adminOrganizationsRoutes: Routes = (app, deps) => {
  const { auth } = deps;

  app.get(
    '/api/v1/admin/organizations',
    {
      config: operatorOnly,
      schema: {
        summary: 'List organizations',
        description: 'Newest first, with their accounts.',
        response: { 200: pageOf(listedOrganizationSchema) },
        querystring: Type.Object({
          ...pageQuerySchema,
          status: Type.Optional(organizationStatuses.schema),
          search: Type.Optional(
            Type.String({ maxLength: 255, description: 'Part of the name, the id, or the number of an invoice.' }),
          ),
          standing: Type.Optional({
            ...accountStandings.schema,
            description:
              'Only those that spent anything this month (`spending`), have little or nothing left to spend (`low`, `exhausted`), or have an `overdue` invoice: at most 1,000, those that spent most this month first.',
          }),
        }),
      },
    },
    async (request) => {
      const { page, limit, status, search, standing } = request.query;
      const asked = {
        page: { page, limit },
        status: organizationStatuses.value(status),
        search,
        standing: accountStandings.value(standing),
      };
      const answer = await listOrganizations(deps, asked, asCaller(request));
      return { data: answer.organizations.map(listedOrganizationJson), pagination: paginationJson(answer.page) };
    },
  );

  app.post(
    '/api/v1/admin/organizations',
    {
      config: operatorOnly,
      schema: {
        summary: 'Create an organization',
        description:
          'Emails an invitation to its owner. Without a name, the organization is created when the invitation is accepted, and `organization` is null; until then, the invitation is at `/api/v1/admin/invitations`. More than one invitation a minute to the same address gets 429.',
        idempotent: true,
        response: { 201: createdSchema },
        body: onlyFields({
          name: Type.Optional(organizationNameSchema),
          owner_email: Type.String({ format: 'email', minLength: 3, maxLength: 254 }),
        }),
      },
    },
    async (request, reply) => {
      const { name, owner_email: ownerEmail } = request.body;
      const { organization, invitation } = await auth.adminCreateOrganization(
        { name, ownerEmail: ownerEmail.trim(), idempotencyKey: idempotencyKey(request) },
        asCaller(request),
      );
      return reply.code(201).send({
        organization: organization === undefined ? null : adminOrganizationJson(organization),
        invitation: invitationJson(invitation!),
      });
    },
  );
};
