import type { BillingDeps, BillingRpc } from '../deps.ts';
import { changePaygCap } from './set-payg-spend-cap.ts';

export const deletePaygSpendCap =
  (deps: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'deletePaygSpendCap'> =>
  async (_request, context) => {
    await changePaygCap(deps, context, null);
    return {};
  };
