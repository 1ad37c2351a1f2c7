import type { BillingDeps, BillingRpc } from '../deps.ts';
import { adminCaller } from './caller.ts';
import { changePaygCap } from './set-payg-spend-cap.ts';

export const deletePaygSpendCap =
  (deps: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'deletePaygSpendCap'> =>
  async (_request, context) => {
    await changePaygCap(deps, adminCaller(context), null);
    return {};
  };
