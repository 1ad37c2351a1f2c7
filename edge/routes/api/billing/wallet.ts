import type { Routes } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { orNull } from '../../../http/nullable.ts';
import { commitmentJson, commitmentSchema, walletJson, walletSchema } from './billing-json.ts';

/** Credit and commitment (service.md, Management endpoints); the role is Billing's to check. */
export const walletRoutes: Routes = (app, { billing }) => {
  const config = { access: { surface: 'api', scope: 'billing:read_current', role: 'admin' } } as const;

  app.get(
    '/api/v1/billing/wallet',
    {
      config,
      schema: {
        summary: 'Get the wallet',
        description: 'The prepaid credit that is left.',
        response: { 200: walletSchema },
      },
    },
    async (request) => {
      const { wallet } = await billing.getWallet({}, asCaller(request));
      return walletJson(wallet!);
    },
  );

  app.get(
    '/api/v1/billing/commitment',
    {
      config,
      schema: {
        summary: 'Get the commitment',
        description: 'The commitment in force, on which usage draws first; null if there is none.',
        response: { 200: orNull(commitmentSchema) },
      },
    },
    async (request, reply) => {
      const { commitment } = await billing.getCommitment({}, asCaller(request));
      // Sent as text: a null answer would become an empty body.
      return reply
        .type('application/json; charset=utf-8')
        .send(JSON.stringify(commitment === undefined ? null : commitmentJson(commitment)) as never);
    },
  );
};
