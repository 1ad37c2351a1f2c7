import { asAnonymous } from '../../../caller.ts';
import { rawJsonBodies } from '../../../http/bodies.ts';
import type { EdgeApp, Routes } from '../../routes.ts';

const payloadBytesMax = 1024 * 1024;

/**
 * POST /api/v1/webhooks/payments: events of the payment provider (decisions.md, Billing). Its signature over the body's bytes is the
 * credential, so they go to Billing as they came.
 */
export const paymentWebhookRoutes: Routes = (app, { billing }) => {
  app.register(async (webhooks: EdgeApp) => {
    rawJsonBodies(webhooks);
    webhooks.post(
      '/api/v1/webhooks/payments',
      { config: { access: { surface: 'public' } }, bodyLimit: payloadBytesMax },
      async (request, reply) => {
        const signature = request.headers['stripe-signature'];
        const { duplicate } = await billing.receivePaymentEvent(
          {
            provider: 'stripe',
            payload: (request.body as Uint8Array | undefined) ?? new Uint8Array(),
            signature: typeof signature === 'string' ? signature : '',
          },
          asAnonymous(request),
        );
        return reply.send({ received: true, duplicate });
      },
    );
  });
};
