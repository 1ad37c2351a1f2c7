import type { CallOptions } from '@connectrpc/connect';
import type { Budget } from '#gen/modelgateway/billing/v1/budget_pb.ts';
import type { Access } from '../../../access.ts';
import type { EdgeApp } from '../../../app.ts';
import { asCaller } from '../../../caller.ts';
import { onlyFields } from '../../../http/bodies.ts';
import { noBody } from '../../../http/json.ts';
import { amountSchema, readAmount } from '../../../http/money-fields.ts';
import { budgetJson, budgetSchema } from './billing-json.ts';

/** A limit that callers set themselves, and how Billing is asked about it. */
type OwnBudget = {
  path: string;
  /** What /openapi.json calls it, as in `Get the personal daily limit`. */
  name: string;
  description: string;
  descriptionOfSet: string;
  /** Who may set or remove it. */
  changedBy: Access;
  get(options: CallOptions): Promise<{ budget?: Budget | undefined }>;
  set(limitNanoUsd: bigint, options: CallOptions): Promise<{ budget?: Budget | undefined }>;
  remove(options: CallOptions): Promise<unknown>;
};

/** Registers the routes by which a limit is read, set and removed. */
export function budgetRoutes(app: EdgeApp, budget: OwnBudget): void {
  const { path, name, description, descriptionOfSet } = budget;
  const changing = { access: budget.changedBy };

  app.get(
    path,
    {
      config: { access: { surface: 'api', scope: 'budgets:read_own' } },
      schema: { summary: `Get the ${name}`, description, response: { 200: budgetSchema } },
    },
    async (request) => budgetJson((await budget.get(asCaller(request))).budget!),
  );

  app.put(
    path,
    {
      config: changing,
      schema: {
        summary: `Set the ${name}`,
        description: descriptionOfSet,
        body: onlyFields({ limit_usd: amountSchema }),
        response: { 200: budgetSchema },
      },
    },
    async (request) => {
      const limitNanoUsd = readAmount(request.body.limit_usd, 'limit_usd', 'from 0');
      return budgetJson((await budget.set(limitNanoUsd, asCaller(request))).budget!);
    },
  );

  app.delete(
    path,
    {
      config: changing,
      schema: { summary: `Remove the ${name}`, response: { 204: noBody('The limit is removed.') } },
    },
    async (request, reply) => {
      await budget.remove(asCaller(request));
      return reply.code(204).send();
    },
  );
}
