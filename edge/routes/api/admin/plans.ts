import { type Static, Type } from 'typebox';
import type { GetAccountResponse } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { Plan } from '#gen/modelgateway/billing/v1/plan_pb.ts';
import { usdJson } from '#shared/money.ts';
import { rateLimitsMax } from '#shared/rate-limits.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idSchema, pageOf, pageOfItems, pageQuerySchema } from '../../../http/json.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import { orNull } from '../../../http/nullable.ts';
import {
  budgetJson,
  budgetSchema,
  commitmentJson,
  commitmentSchema,
  planJson,
  planSchema,
  walletJson,
  walletSchema,
} from '../billing/billing-json.ts';
import { givenLimits, limitsJson, ownLimitsJson, ownRateLimitsSchema, rateLimitsSchema } from '../rate-limit-fields.ts';
import { existingOrganization } from './organization-id.ts';

const tenantParams = Type.Object({ tenant_id: idSchema });
const limit = (maximum: number) =>
  Type.Optional(Type.Integer({ minimum: 0, maximum, description: "0, the default, means the platform's limit." }));

/** A plan with only the rate limits that it sets itself: replacing the whole plan leaves the others to the platform. */
export const adminPlanSchema = Type.Object(
  { ...planSchema.properties, own_rate_limits: orNull(ownRateLimitsSchema) },
  { $id: 'AdminPlan' },
);
export const adminPlanJson = (plan: Plan): Static<typeof adminPlanSchema> => ({
  ...planJson(plan),
  own_rate_limits: ownLimitsJson(plan.rateLimits),
});

/** Everything about an organization's money. */
export const accountSchema = Type.Object(
  {
    plan: planSchema,
    wallet: walletSchema,
    commitment: orNull(commitmentSchema),
    payg: budgetSchema,
    receivable_usd: Type.Number({ description: 'The unpaid part of finalized invoices.' }),
    rate_limits: orNull(ownRateLimitsSchema),
    effective_rate_limits: rateLimitsSchema,
  },
  { $id: 'Account' },
);

export const accountJson = (account: GetAccountResponse): Static<typeof accountSchema> => ({
  plan: planJson(account.plan!),
  wallet: walletJson(account.wallet!),
  commitment: account.commitment === undefined ? null : commitmentJson(account.commitment),
  payg: budgetJson(account.payg!),
  receivable_usd: usdJson(account.receivableNanoUsd),
  rate_limits: ownLimitsJson(account.rateLimits),
  effective_rate_limits: limitsJson(account.effectiveRateLimits!),
});

/** Plans, and the plan of an organization (decisions.md, Auth: operators). */
export const adminPlanRoutes: Routes = (app, { auth, billing }) => {
  app.get(
    '/api/v1/admin/plans',
    {
      config: operatorOnly,
      schema: {
        summary: 'List plans',
        description: 'By code.',
        response: { 200: pageOf(adminPlanSchema) },
        querystring: Type.Object(pageQuerySchema),
      },
    },
    async (request) => {
      const { plans } = await billing.listPlans({}, asCaller(request));
      return pageOfItems(plans, adminPlanJson, request.query);
    },
  );

  app.put(
    '/api/v1/admin/plans/:code',
    {
      config: operatorOnly,
      schema: {
        summary: 'Create or replace a plan',
        description: 'Whatever is left out is reset to its default.',
        response: { 200: adminPlanSchema },
        params: Type.Object({ code: Type.String({ pattern: '^[a-z0-9][a-z0-9-]*$', maxLength: 64 }) }),
        body: onlyFields({
          name: Type.String({ minLength: 1, maxLength: 255 }),
          payg_enabled: Type.Boolean(),
          rate_limits: Type.Optional(
            onlyFields({
              requests_per_minute: limit(rateLimitsMax.requestsPerMinute),
              tokens_per_minute: limit(rateLimitsMax.tokensPerMinute),
              concurrent_requests: limit(rateLimitsMax.concurrentRequests),
            }),
          ),
          monthly_credit_usd: Type.Optional(amountSchema),
          features: Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 255 }), { maxItems: 50 })),
          payment_terms_days: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: 365,
              description: 'From the issue of an invoice to its due date; 30 by default.',
            }),
          ),
        }),
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
            rateLimits: givenLimits(body.rate_limits ?? {}),
            included: {
              monthlyCreditNanoUsd: readAmount(body.monthly_credit_usd ?? 0, 'monthly_credit_usd', 'from 0'),
              features: body.features,
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
        summary: 'Assign a plan to an organization',
        description: 'Takes effect at once.',
        response: { 200: planSchema },
        params: tenantParams,
        body: onlyFields({ code: Type.String({ minLength: 1, maxLength: 64 }) }),
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
    {
      config: operatorOnly,
      schema: {
        summary: 'Get the account of an organization',
        response: { 200: accountSchema },
        params: tenantParams,
      },
    },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      return accountJson(await billing.getAccount({ tenantId }, options));
    },
  );
};
