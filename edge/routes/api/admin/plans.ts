import { Type } from 'typebox';
import type { Plan } from '#gen/modelgateway/billing/v1/plan_pb.ts';
import { usdJson } from '#shared/money.ts';
import { operatorOnly } from '../../../access.ts';
import { asCaller } from '../../../caller.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import type { Routes } from '../../routes.ts';
import { budgetJson, commitmentJson, planJson, walletJson } from '../billing/billing-json.ts';
import { changedLimits, limitsJson, ownLimitsJson } from '../rate-limit-fields.ts';
import { existingOrganization } from './organization-id.ts';

const tenantParams = Type.Object({ tenant_id: Type.String() });
const limit = (maximum: number) => Type.Optional(Type.Integer({ minimum: 0, maximum }));

/** A plan with the rate limits that it sets itself: whoever replaces it whole leaves the others to the platform. */
const adminPlanJson = (plan: Plan) => ({ ...planJson(plan), own_rate_limits: ownLimitsJson(plan.rateLimits) });

/** Plans, and which one an organization is on (decisions.md, Auth: operators). */
export const adminPlanRoutes: Routes = (app, { auth, billing }) => {
  app.get('/api/v1/admin/plans', { config: operatorOnly }, async (request) => {
    const { plans } = await billing.listPlans({}, asCaller(request));
    return { data: plans.map(adminPlanJson) };
  });

  app.put(
    '/api/v1/admin/plans/:code',
    {
      config: operatorOnly,
      schema: {
        params: Type.Object({ code: Type.String({ pattern: '^[a-z0-9][a-z0-9-]*$', maxLength: 64 }) }),
        body: Type.Object(
          {
            name: Type.String({ minLength: 1, maxLength: 255 }),
            payg_enabled: Type.Boolean(),
            rate_limits: Type.Optional(
              Type.Object(
                {
                  requests_per_minute: limit(10_000_000),
                  tokens_per_minute: limit(2_000_000_000),
                  concurrent_requests: limit(1_000_000),
                },
                { additionalProperties: false },
              ),
            ),
            monthly_credit_usd: Type.Optional(amountSchema),
            features: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 255 }), { maxItems: 50 })),
            payment_terms_days: Type.Optional(Type.Integer({ minimum: 0, maximum: 365 })),
          },
          { additionalProperties: false },
        ),
      },
    },
    async (request) => {
      const { body } = request;
      const { plan } = await billing.putPlan(
        {
          plan: {
            code: request.params.code,
            name: body.name,
            paygEnabled: body.payg_enabled,
            rateLimits: changedLimits(undefined, body.rate_limits ?? null),
            included: {
              monthlyCreditNanoUsd: readAmount(body.monthly_credit_usd ?? 0, 'monthly_credit_usd', 'from 0'),
              features: body.features ?? [],
            },
            paymentTermsDays: body.payment_terms_days ?? 30,
          },
        },
        asCaller(request),
      );
      return adminPlanJson(plan!);
    },
  );

  app.put(
    '/api/v1/admin/organizations/:tenant_id/plan',
    {
      config: operatorOnly,
      schema: {
        params: tenantParams,
        body: Type.Object({ code: Type.String({ minLength: 1, maxLength: 64 }) }, { additionalProperties: false }),
      },
    },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const { plan } = await billing.assignPlan({ tenantId, planCode: request.body.code }, options);
      return planJson(plan!);
    },
  );

  app.get(
    '/api/v1/admin/organizations/:tenant_id/account',
    { config: operatorOnly, schema: { params: tenantParams } },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const account = await billing.getAccount({ tenantId }, options);
      return {
        plan: planJson(account.plan!),
        wallet: walletJson(account.wallet!),
        commitment: account.commitment === undefined ? null : commitmentJson(account.commitment),
        payg: budgetJson(account.payg!),
        receivable_usd: usdJson(account.receivableNanoUsd),
        rate_limits: ownLimitsJson(account.rateLimits),
        effective_rate_limits: limitsJson(account.effectiveRateLimits!),
      };
    },
  );
};
