import type { CallOptions } from '@connectrpc/connect';
import { Type } from 'typebox';
import { type Organization, OrganizationStatus } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { notFound } from '#shared/errors.ts';
import { callerContext } from '#shared/rpc/caller.ts';
import { callerOfRequest } from '../../../caller.ts';
import { paginationJson } from '../../../http/json.ts';
import { idempotencyKey, pageQuerySchema, type Routes } from '../../routes.ts';
import { invitationJson } from '../invitations.ts';
import { organizationNameSchema } from '../organization.ts';
import { organizationJson } from '../user-json.ts';
import { organizationId } from './organization-id.ts';
import { changedLimits, limitsJson, limitsSchema, ownLimitsJson } from './rate-limit-fields.ts';

const access = { surface: 'operator' } as const;
const params = Type.Object({ tenant_id: Type.String() });
const statuses = { active: OrganizationStatus.ACTIVE, suspended: OrganizationStatus.SUSPENDED } as const;

/** Organizations, for operators (decisions.md, Auth). Their key quota is Keys', their plan Billing's. */
export const adminOrganizationRoutes: Routes = (app, { auth, keys, billing }) => {
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

  /** An organization with what Keys and Billing know of it. */
  async function detailsOf(tenantId: string, options: CallOptions): Promise<object> {
    const { organization, memberCount } = await auth.adminGetOrganization({ tenantId }, options);
    const { effectiveKeysPerUser } = await keys.getKeyQuota({ tenantId }, options);
    const account = await billing.getAccount({ tenantId }, options);
    return {
      ...adminOrganizationJson(organization!),
      member_count: memberCount,
      // Null: as many as they like.
      key_quota: effectiveKeysPerUser ?? null,
      plan: account.plan!.code,
      rate_limits: ownLimitsJson(account.rateLimits),
      effective_rate_limits: limitsJson(account.effectiveRateLimits!),
    };
  }

  app.get('/api/v1/admin/organizations/:tenant_id', { config: { access }, schema: { params } }, async (request) =>
    detailsOf(organizationId(request.params.tenant_id), { contextValues: callerContext(callerOfRequest(request)) }),
  );

  app.patch(
    '/api/v1/admin/organizations/:tenant_id',
    {
      config: { access },
      schema: {
        params,
        body: Type.Object(
          {
            name: Type.Optional(organizationNameSchema),
            key_quota: Type.Optional(
              Type.Union([Type.Integer({ minimum: 0, maximum: 1_000_000 }), Type.Literal('default'), Type.Null()]),
            ),
            plan: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
            rate_limits: Type.Optional(Type.Union([limitsSchema, Type.Null()])),
          },
          { additionalProperties: false },
        ),
      },
    },
    async (request) => {
      const { name, key_quota: keyQuota, plan, rate_limits: rateLimits } = request.body;
      const options = { contextValues: callerContext(callerOfRequest(request)) };
      const tenantId = organizationId(request.params.tenant_id);
      // The plan and the organization first: a wrong one must not leave a change behind.
      if (plan !== undefined) {
        const { plans } = await billing.listPlans({}, options);
        if (!plans.some(({ code }) => code === plan)) throw notFound('plan');
      }
      await auth.adminUpdateOrganization({ tenantId, name }, options);
      if (plan !== undefined) await billing.assignPlan({ tenantId, planCode: plan }, options);
      if (rateLimits !== undefined) {
        const { rateLimits: before } = await billing.getAccount({ tenantId }, options);
        await billing.setOrganizationRateLimits({ tenantId, rateLimits: changedLimits(before, rateLimits) }, options);
      }
      if (keyQuota !== undefined)
        await keys.setKeyQuota({ tenantId, quota: { quota: quotaChoice(keyQuota) } }, options);
      return detailsOf(tenantId, options);
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/suspend',
    {
      config: { access },
      schema: {
        params,
        body: Type.Optional(
          Type.Union([
            Type.Object({ reason: Type.Optional(Type.String({ maxLength: 1000 })) }, { additionalProperties: false }),
            Type.Null(),
          ]),
        ),
      },
    },
    async (request) => {
      const { organization } = await auth.suspendOrganization(
        { tenantId: organizationId(request.params.tenant_id), reason: request.body?.reason ?? '' },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return adminOrganizationJson(organization!);
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/restore',
    { config: { access }, schema: { params } },
    async (request) => {
      const { organization } = await auth.restoreOrganization(
        { tenantId: organizationId(request.params.tenant_id) },
        { contextValues: callerContext(callerOfRequest(request)) },
      );
      return adminOrganizationJson(organization!);
    },
  );
};

const adminOrganizationJson = (organization: Organization) => ({
  ...organizationJson(organization),
  suspension_reason: organization.suspensionReason || null,
});

function quotaChoice(quota: number | 'default' | null) {
  if (quota === null) return { case: 'unlimited', value: true } as const;
  if (quota === 'default') return { case: 'platformDefault', value: true } as const;
  return { case: 'keysPerUser', value: quota } as const;
}
