import { Type } from 'typebox';
import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { operatorOnly } from '../../../access.ts';
import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { idSchema, parseTimeIfGiven, timeSchema } from '../../../http/json.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import { nullable } from '../../../http/nullable.ts';
import { lotJson, lotSchema, transactionJson, transactionSchema } from '../billing/billing-json.ts';
import { idInPath } from '../id-in-path.ts';
import { existingOrganization, organizationId } from './organization-id.ts';
import { paymentIdSchema } from './payment-id.ts';
import { requestId } from './request-id.ts';

const params = Type.Object({ tenant_id: idSchema });
const descriptionSchema = Type.String({ minLength: 1, maxLength: 255 });

/** Credit that operators give or take, and charges that they give back (decisions.md, Auth: operators). */
export const adminCreditRoutes: Routes = (app, { auth, billing }) => {
  app.post(
    '/api/v1/admin/organizations/:tenant_id/credits',
    {
      config: operatorOnly,
      schema: {
        summary: 'Grant credit to an organization',
        idempotent: 'however late',
        response: { 201: lotSchema },
        params,
        body: onlyFields({
          amount_usd: amountSchema,
          source: Type.Optional(Type.Enum(['purchase', 'promotion'], { description: '`promotion` by default.' })),
          expires_at: nullable(timeSchema),
          description: Type.Optional(Type.String({ maxLength: 255 })),
          payment_id: Type.Optional(paymentIdSchema),
        }),
      },
    },
    async (request, reply) => {
      const { amount_usd: amount, source, expires_at: expiresAt, description, payment_id: paymentId } = request.body;
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const { lot } = await billing.grantCredit(
        {
          requestId: requestId(request),
          tenantId,
          source: source === 'purchase' ? LotSource.PURCHASE : LotSource.PROMOTION,
          amountNanoUsd: readAmount(amount, 'amount_usd', 'above 0'),
          expiresAt: parseTimeIfGiven(expiresAt, 'expires_at'),
          description,
          paymentId,
        },
        options,
      );
      return reply.code(201).send(lotJson(lot!));
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/adjustments',
    {
      config: operatorOnly,
      schema: {
        summary: 'Adjust the credit of an organization',
        description:
          'A negative amount takes credit away. More than there is is a conflict, unless a negative balance is allowed.',
        idempotent: 'however late',
        response: { 201: transactionSchema },
        params,
        body: onlyFields({
          amount_usd: amountSchema,
          description: descriptionSchema,
          allow_negative_balance: Type.Optional(
            Type.Boolean({
              description:
                'Whether more may be taken than there is, as after a lost dispute about credit that was spent: later credit pays the rest first.',
            }),
          ),
        }),
      },
    },
    async (request, reply) => {
      const options = asCaller(request);
      const tenantId = await existingOrganization(auth, request.params.tenant_id, options);
      const { transaction } = await billing.postAdjustment(
        {
          requestId: requestId(request),
          tenantId,
          amountNanoUsd: readAmount(request.body.amount_usd, 'amount_usd', 'not 0'),
          description: request.body.description,
          allowNegativeBalance: request.body.allow_negative_balance ?? false,
        },
        options,
      );
      return reply.code(201).send(transactionJson(transaction!));
    },
  );

  app.post(
    '/api/v1/admin/organizations/:tenant_id/transactions/:transaction_id/refund',
    {
      config: operatorOnly,
      schema: {
        summary: 'Refund a charge of an organization',
        description: 'In whole or in part. More than is left of the charge is a conflict.',
        idempotent: 'however late',
        response: { 201: transactionSchema },
        params: Type.Object({ tenant_id: idSchema, transaction_id: idSchema }),
        body: onlyFields({
          amount_usd: Type.Optional(Type.Number({ description: 'By default, all that is left of it.' })),
          description: descriptionSchema,
        }),
      },
    },
    async (request, reply) => {
      const { amount_usd: amount, description } = request.body;
      const { transaction } = await billing.refundTransaction(
        {
          requestId: requestId(request),
          tenantId: organizationId(request.params.tenant_id),
          transactionId: idInPath(request.params.transaction_id, 'charge'),
          // 0: all that is left of it.
          amountNanoUsd: amount === undefined ? 0n : readAmount(amount, 'amount_usd', 'above 0'),
          description,
        },
        asCaller(request),
      );
      return reply.code(201).send(transactionJson(transaction!));
    },
  );
};
