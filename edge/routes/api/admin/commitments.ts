import { Type } from 'typebox';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idSchema, pageOf, pageQuerySchema, paginationJson, parseTime, timeSchema } from '../../../http/json.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import { commitmentJson, commitmentSchema } from '../billing/billing-json.ts';
import { idInPath } from '../id-in-path.ts';
import { existingOrganization } from './organization-id.ts';
import { requestId } from './request-id.ts';

/** /api/v1/admin/organizations/{tenant_id}/commitments: list, create, end early. */
export const adminCommitmentRoutes: Routes = (app, { auth, billing }) => {
  const path = '/api/v1/admin/organizations/:tenant_id/commitments';
  const params = Type.Object({ tenant_id: idSchema });

  app.get(
    path,
    {
      config: operatorOnly,
      schema: {
        summary: 'List the commitments of an organization',
        description: 'Newest first.',
        response: { 200: pageOf(commitmentSchema) },
        params,
        querystring: Type.Object(pageQuerySchema),
      },
    },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const { page, limit } = request.query;
      const answer = await billing.listCommitments({ tenantId, page: { page, limit } }, options);
      return { data: answer.commitments.map(commitmentJson), pagination: paginationJson(answer.pageInfo) };
    },
  );

  app.post(
    path,
    {
      config: operatorOnly,
      schema: {
        summary: 'Create a commitment of an organization',
        description:
          'What the organization has agreed to spend in a period. Usage draws on it before credit. Overlapping another that has not ended is a conflict (409).',
        idempotent: 'however late',
        response: { 201: commitmentSchema },
        params,
        body: onlyFields({
          amount_usd: amountSchema,
          period_start: timeSchema,
          period_end: timeSchema,
        }),
      },
    },
    async (request, reply) => {
      const { amount_usd: amount, period_start: start, period_end: end } = request.body;
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const { commitment } = await billing.createCommitment(
        {
          requestId: requestId(request),
          tenantId,
          amountNanoUsd: readAmount(amount, 'amount_usd', 'above 0'),
          periodStart: parseTime(start, 'period_start'),
          periodEnd: parseTime(end, 'period_end'),
        },
        options,
      );
      return reply.code(201).send(commitmentJson(commitment!));
    },
  );

  app.post(
    `${path}/:commitment_id/end`,
    {
      config: operatorOnly,
      schema: {
        summary: 'End a commitment of an organization',
        description:
          'At once, such as one with a wrong amount; what it paid for stays paid. One that had not begun gets an empty period. The rest is written off within a minute.',
        response: { 200: commitmentSchema },
        params: Type.Object({ tenant_id: idSchema, commitment_id: idSchema }),
      },
    },
    async (request) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const commitmentId = idInPath(request.params.commitment_id, 'commitment');
      const { commitment } = await billing.endCommitment({ tenantId, commitmentId }, options);
      return commitmentJson(commitment!);
    },
  );
};
