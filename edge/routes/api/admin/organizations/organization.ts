import type { CallOptions } from '@connectrpc/connect';
import { type Static, Type } from 'typebox';
import { notFound } from '#shared/errors.ts';
import { operatorOnly } from '../../../../access.ts';
import type { RouteDeps, Routes } from '../../../../app.ts';
import { asCaller } from '../../../../caller.ts';
import { onlyFields } from '../../../../http/bodies.ts';
import { idSchema } from '../../../../http/json.ts';
import { nullable, orNull } from '../../../../http/nullable.ts';
import { organizationNameSchema } from '../../organization.ts';
import {
  givenLimits,
  limitsJson,
  limitsSchema,
  ownLimitsJson,
  ownRateLimitsSchema,
  rateLimitsSchema,
} from '../../rate-limit-fields.ts';
import { organizationId } from '../organization-id.ts';
import { quotaOf } from './key-quota.ts';
import { adminOrganizationJson, adminOrganizationSchema } from './organization-json.ts';

const params = Type.Object({ tenant_id: idSchema });

export const organizationDetailsSchema = Type.Object(
  {
    ...adminOrganizationSchema.properties,
    member_count: Type.Integer(),
    key_quota: orNull(Type.Integer({ description: 'How many API keys each user may have; null means unlimited.' })),
    plan: Type.String({ description: 'The code of the plan.' }),
    rate_limits: orNull(ownRateLimitsSchema),
    effective_rate_limits: rateLimitsSchema,
  },
  { $id: 'OrganizationDetails' },
);

/** GET and PATCH /api/v1/admin/organizations/{tenant_id}. The key quota belongs to Keys, the plan to Billing. */
export const adminOrganizationRoutes: Routes = (app, deps) => {
  const { auth, keys, billing } = deps;

  app.get(
    '/api/v1/admin/organizations/:tenant_id',
    {
      config: operatorOnly,
      schema: { summary: 'Get an organization', response: { 200: organizationDetailsSchema }, params },
    },
    async (request) => detailsOf(deps, organizationId(request.params.tenant_id), asCaller(request)),
  );

  app.patch(
    '/api/v1/admin/organizations/:tenant_id',
    {
      config: operatorOnly,
      schema: {
        summary: 'Change an organization',
        response: { 200: organizationDetailsSchema },
        params,
        body: onlyFields({
          name: Type.Optional(organizationNameSchema),
          key_quota: Type.Optional(
            Type.Union([Type.Integer({ minimum: 0, maximum: 1_000_000 }), Type.Literal('default'), Type.Null()], {
              description: 'How many API keys each user may have; null means unlimited.',
            }),
          ),
          plan: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: 'The code of the plan.' })),
          rate_limits: nullable(limitsSchema),
        }),
      },
    },
    async (request) => {
      const { name, key_quota: keyQuota, plan, rate_limits: rateLimits } = request.body;
      const options = asCaller(request);
      const tenantId = organizationId(request.params.tenant_id);
      // All three services are asked before the first one is changed: an outage of one, or an unknown plan, must not leave half a change.
      // If one fails from here on, repeating the request completes the change.
      await detailsOf(deps, tenantId, options);
      if (plan !== undefined) {
        const { plans } = await billing.listPlans({}, options);
        if (!plans.some(({ code }) => code === plan)) throw notFound('plan', { param: 'plan' });
      }
      await auth.adminUpdateOrganization({ tenantId, name }, options);
      if (plan !== undefined) await billing.assignPlan({ tenantId, planCode: plan }, options);
      if (rateLimits !== undefined) {
        const changes = rateLimits === null ? undefined : givenLimits(rateLimits);
        await billing.setOrganizationRateLimits({ tenantId, changes }, options);
      }
      if (keyQuota !== undefined) await keys.setKeyQuota({ tenantId, quota: quotaOf(keyQuota) }, options);
      return detailsOf(deps, tenantId, options);
    },
  );
};

/** An organization with what Keys and Billing know of it. */
async function detailsOf(
  { auth, keys, billing }: Pick<RouteDeps, 'auth' | 'keys' | 'billing'>,
  tenantId: string,
  options: CallOptions,
): Promise<Static<typeof organizationDetailsSchema>> {
  const { organization, memberCount } = await auth.adminGetOrganization({ tenantId }, options);
  const { effectiveKeysPerUser } = await keys.getKeyQuota({ tenantId }, options);
  const account = await billing.getAccount({ tenantId }, options);
  return {
    ...adminOrganizationJson(organization!),
    member_count: memberCount,
    key_quota: effectiveKeysPerUser ?? null,
    plan: account.plan!.code,
    rate_limits: ownLimitsJson(account.rateLimits),
    effective_rate_limits: limitsJson(account.effectiveRateLimits!),
  };
}
