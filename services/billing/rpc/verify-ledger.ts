import { CallerKind, callerOf, requireOperator } from '#shared/rpc/caller.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { verifyLedgerOf } from '../ledger/verify.ts';

export const verifyLedger =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'verifyLedger'> =>
  ({ tenantId }, context) => {
    const caller = callerOf(context);
    if (caller.kind !== CallerKind.SERVICE) requireOperator(caller);
    return verifyLedgerOf(database, tenantId === '' ? null : tenantId, context.signal);
  };
