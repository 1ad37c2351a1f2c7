import { Type } from 'typebox';
import type { EdgeApp, Routes } from '../../../app.ts';
import { asAnonymous } from '../../../caller.ts';
import { rawJsonBodies } from '../../../http/bodies.ts';

const payloadBytesMax = 1024 * 1024;

/**
 * POST /api/v1/webhooks/payments: events of the payment provider (decisions.md, Billing). Its signature over the body's bytes is the
 * credential, so the body reaches Billing unchanged.
 */
export const paymentWebhookRoutes: Routes = (app, { billing }) => {
  app.register(async (webhooks: EdgeApp) => {
    rawJsonBodies(webhooks, payloadBytesMax);
    webhooks.post(
      '/api/v1/webhooks/payments',
      {
        config: { access: { surface: 'public' } },
        schema: {
          summary: 'Receive a payment event',
          description: 'Called by the payment provider, whose signature of the raw body authenticates it.',
          headers: Type.Object({ 'stripe-signature': Type.Optional(Type.String()) }),
          uncheckedBody: Type.Object({}, { description: 'An event as Stripe sends it.' }),
          response: {
            200: Type.Object({
              received: Type.Literal(true),
              duplicate: Type.Boolean({ description: 'Whether the event had been received before.' }),
            }),
          },
        },
      },
      async (request, reply) => {
        const { duplicate } = await billing.receivePaymentEvent(
          {
            provider: 'stripe',
            payload: (request.body as Uint8Array | undefined) ?? new Uint8Array(),
            signature: request.headers['stripe-signature'] ?? '',
          },
          asAnonymous(request),
        );
        return reply.send({ received: true, duplicate });
      },
    );
  });
};
